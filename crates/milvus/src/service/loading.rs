//! Loading and releasing. Loading ends before it is answered, so progress is all or nothing.
//!
//! Where the server loads what is read, a property of the collection tells that it was released, also
//! after a restart and to the client in the process, which does the same.

use std::sync::Arc;

use pipeann_db::catalog::{
    CatalogError, CollectionEntry as Entry, CollectionPath, EntryChange, Properties, WantedLoad,
};

use super::frontend::Call;
use crate::convert::names;
use crate::proto::common::{LoadState, Status};
use crate::proto::milvus as wire;
use crate::status::{CallFailure, Code};

const WHOLE: i64 = 100;
/// Is a property of a collection that was released by name, and is not loaded by being read.
const RELEASED: &str = "pipeann.released";

pub(super) fn load(
    call: &Call,
    request: wire::LoadCollectionRequest,
) -> Result<Status, CallFailure> {
    load_some(call, call.place(&request.db_name, request.collection_name)?, None)
}

pub(super) fn load_partitions(
    call: &Call,
    request: wire::LoadPartitionsRequest,
) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    let entry = call.entry(&place.database, &place.collection)?;
    some_named(&request.partition_names)?;
    check_unkeyed(&entry, "load")?;
    load_some(call, place, Some(request.partition_names))
}

/// The partitions to be loaded have names.
fn some_named(partitions: &[String]) -> Result<(), CallFailure> {
    if partitions.is_empty() {
        return Err(no_partition());
    }
    partitions.iter().try_for_each(|name| names::partition(name))
}

/// Partitions of a partition key are loaded and released with the whole.
fn check_unkeyed(entry: &Entry, action: &str) -> Result<(), CallFailure> {
    match entry.has_partition_key() {
        true => Err(CallFailure::parameter(format!(
            "disable {action} partitions if partition key mode is used: invalid parameter"
        ))),
        false => Ok(()),
    }
}

/// Refuses partitions by name where a partition key says which rows are where: what is read of a few
/// of them alone would be incomplete.
pub(super) fn check_nameable(entry: &Entry, partitions: &[String]) -> Result<(), CallFailure> {
    match partitions.is_empty() || !entry.has_partition_key() {
        true => Ok(()),
        false => Err(CatalogError::PartitionKeyed { collection: entry.name.clone() }.into()),
    }
}

fn no_partition() -> CallFailure {
    CallFailure::parameter("invalid parameter[expected=any partition][actual=empty partition list]")
}

fn load_some(
    call: &Call,
    place: CollectionPath,
    partitions: Option<Vec<String>>,
) -> Result<Status, CallFailure> {
    let entry = call.entry(&place.database, &place.collection)?;
    check_indexed(&entry)?;
    call.database().apply(EntryChange::Load { place: place.clone(), partitions })?;
    if entry.properties.contains_key(RELEASED) {
        mark_released(call, place, false)?;
    }
    Ok(Status::default())
}

fn mark_released(call: &Call, place: CollectionPath, released: bool) -> Result<(), CallFailure> {
    let (mut set, mut remove) = (Properties::default(), Vec::new());
    match released {
        true => drop(set.insert(RELEASED.to_owned(), "true".to_owned())),
        false => remove.push(RELEASED.to_owned()),
    }
    let (description, consistency) = (None, None);
    call.database().apply(EntryChange::AlterCollection {
        place,
        set,
        remove,
        description,
        consistency,
    })?;
    Ok(())
}

/// The collection of a read, which names these partitions of it or none; loaded for it where the
/// server does that and nobody has released it.
pub(super) fn to_be_read(
    call: &Call,
    (database, collection): (&str, &str),
    partitions: &[String],
) -> Result<Arc<Entry>, CallFailure> {
    let entry = call.entry(database, collection)?;
    check_nameable(&entry, partitions)?;
    let refused = match check_loaded(&entry, partitions) {
        Ok(()) => return Ok(entry),
        Err(refused) => refused,
    };
    let not_loaded = [Code::CollectionNotLoaded, Code::PartitionNotLoaded].contains(&refused.code);
    if !not_loaded || !call.loads_what_is_read() || entry.properties.contains_key(RELEASED) {
        return Err(refused);
    }
    let place = call.place(database, entry.name.clone())?;
    let partitions =
        (!partitions.is_empty() && entry.load != WantedLoad::Released).then(|| partitions.to_vec());
    call.database().apply(EntryChange::Load { place, partitions })?;
    call.entry(database, collection)
}

/// Clients count on it that nothing is loaded before its vectors have an index. Vectors that cannot
/// have one do not count.
fn check_indexed(entry: &Entry) -> Result<(), CallFailure> {
    let bare = entry.schema.fields().iter().filter(|field| {
        let kind = field.spec.data_type.vector_kind();
        kind.is_some_and(|kind| kind.engine_type().is_some())
            && entry.indexes_of(field.id).next().is_none()
    });
    let bare: Vec<&str> = bare.map(|field| field.spec.name.as_str()).collect();
    if bare.is_empty() {
        return Ok(());
    }
    Err(CallFailure::new(
        Code::IndexNotFound,
        format!(
            "index not found[collection={}]: there is no vector index on field: [{}], please create index firstly",
            entry.name,
            bare.join(" ")
        ),
    ))
}

pub(super) fn release(
    call: &Call,
    request: wire::ReleaseCollectionRequest,
) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    if call.loads_what_is_read() {
        mark_released(call, place.clone(), true)?;
    }
    call.database().apply(EntryChange::Release { place, partitions: None })?;
    Ok(Status::default())
}

pub(super) fn release_partitions(
    call: &Call,
    request: wire::ReleasePartitionsRequest,
) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    let entry = call.entry(&place.database, &place.collection)?;
    if request.partition_names.is_empty() {
        return Err(no_partition());
    }
    check_unkeyed(&entry, "release")?;
    let partitions = Some(request.partition_names);
    call.database().apply(EntryChange::Release { place, partitions })?;
    Ok(Status::default())
}

/// Refuses what is not loaded: the named partitions, or all of a collection where none is named.
pub(super) fn check_loaded(entry: &Entry, partitions: &[String]) -> Result<(), CallFailure> {
    if entry.load == WantedLoad::Released {
        return Err(CallFailure::not_loaded(&entry.name));
    }
    for name in partitions {
        let Ok(partition) = entry.partition(name) else {
            return Err(CallFailure::new(
                Code::PartitionNotFound,
                format!("partition name {name} not found: partition not found[partition={name}]"),
            ));
        };
        if !entry.load.includes(partition.id) {
            let reason = format!("partition not loaded[partition={name}]");
            return Err(CallFailure::new(Code::PartitionNotLoaded, reason));
        }
    }
    Ok(())
}

/// The partitions that a read is of, where they are not all: those that are named, or else those that
/// are loaded. What is not loaded is refused.
pub(super) fn readable<'e>(
    entry: &'e Entry,
    named: &'e [String],
) -> Result<Option<Vec<&'e str>>, CallFailure> {
    check_loaded(entry, named)?;
    if !named.is_empty() {
        return Ok(Some(named.iter().map(String::as_str).collect()));
    }
    let loaded = entry.partitions.iter().filter(|partition| entry.load.includes(partition.id));
    let loaded = loaded.map(|partition| partition.name.as_str());
    Ok((entry.load != WantedLoad::Whole).then(|| loaded.collect()))
}

pub(super) fn progress(
    call: &Call,
    request: wire::GetLoadingProgressRequest,
) -> Result<wire::GetLoadingProgressResponse, CallFailure> {
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    check_loaded(&entry, &request.partition_names)?;
    Ok(wire::GetLoadingProgressResponse {
        progress: WHOLE,
        refresh_progress: WHOLE,
        ..Default::default()
    })
}

pub(super) fn state(
    call: &Call,
    request: wire::GetLoadStateRequest,
) -> Result<wire::GetLoadStateResponse, CallFailure> {
    let state = match call.entry(&request.db_name, &request.collection_name) {
        Err(CallFailure { code: Code::CollectionNotFound, .. }) => LoadState::NotExist,
        Err(failure) => return Err(failure),
        Ok(entry) => match check_loaded(&entry, &request.partition_names) {
            Ok(()) => LoadState::Loaded,
            Err(CallFailure { code: Code::PartitionNotFound, reason }) => {
                return Err(CallFailure::new(Code::PartitionNotFound, reason));
            }
            Err(_) => LoadState::NotLoad,
        },
    };
    Ok(wire::GetLoadStateResponse { state: state.into(), ..Default::default() })
}
