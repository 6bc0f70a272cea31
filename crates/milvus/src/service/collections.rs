//! Collections as they come, change and go.

use pipeann_db::catalog::{
    CatalogError, CollectionPath, ConsistencyLevel, EntityKind, EntryChange, NewCollection,
    Subject, TIME_TO_LIVE,
};
use pipeann_db::collection::Filter;
use pipeann_db::database::DatabaseError;
use pipeann_db::schema::limits::MAX_FIELDS;
use pipeann_db::schema::{FieldAlteration, SchemaError};
use prost::Message as _;

use super::frontend::Call;
use crate::convert::instants::refuse_zones;
use crate::convert::names;
use crate::convert::parameters::properties;
use crate::convert::schema_in::{self, MAX_CAPACITY, MAX_LENGTH};
use crate::proto::common::{ConsistencyLevel as WireLevel, Status};
use crate::proto::milvus as wire;
use crate::proto::schema::{CollectionSchema, FieldSchema};
use crate::status::{CallFailure, Code, refused};

/// Adds a dynamic field to a collection without one.
const DYNAMIC: &str = "dynamicfield.enabled";
const FIELD_DESCRIPTION: &str = "field.description";
/// What of a field can be changed after it was declared; the last three change nothing here.
const ALTERABLE: [&str; 6] =
    [MAX_LENGTH, MAX_CAPACITY, FIELD_DESCRIPTION, "mmap.enabled", "mmap_enabled", "warmup"];

pub(super) fn create(
    call: &Call,
    request: wire::CreateCollectionRequest,
) -> Result<Status, CallFailure> {
    let level = consistency(request.consistency_level())?;
    let schema = CollectionSchema::decode(request.schema.as_slice())
        .map_err(|error| CallFailure::parameter(format!("the schema is malformed: {error}")))?;
    let declared = request.properties.into_iter().chain(schema.properties.iter().cloned());
    let properties = properties(declared.collect());
    check_time_to_live(properties.get(TIME_TO_LIVE))?;
    refuse_zones(|name| properties.get(name).map(String::as_str))?;
    let mut new = NewCollection::new(schema_in::schema(schema)?);
    new.consistency = level;
    new.properties = properties;
    if request.shards_num > 0 {
        new.shards = request.shards_num.cast_unsigned();
    }
    new.partitions = partitions(&new, request.num_partitions)?;
    let place = call.place(&request.db_name, request.collection_name)?;
    call.database().apply(EntryChange::CreateCollection { place, new: Box::new(new) })?;
    Ok(Status::default())
}

/// How many partitions a partition key spreads rows over. Clients send 0 or 1 where there is no key.
fn partitions(new: &NewCollection, asked: i64) -> Result<Option<u32>, CallFailure> {
    let keyed = new.schema.partition_key_position().is_some();
    match (keyed, u32::try_from(asked)) {
        (_, Ok(0)) | (false, Ok(1)) => Ok(None),
        (true, Ok(asked)) => Ok(Some(asked)),
        (false, Ok(_)) => Err(CallFailure::parameter(
            "num_partitions should only be specified with partition key field enabled",
        )),
        (_, Err(_)) => Err(CallFailure::parameter(format!(
            "the specified partitions should be greater than 0 if partition key is used, not {asked}"
        ))),
    }
}

fn consistency(level: WireLevel) -> Result<ConsistencyLevel, CallFailure> {
    Ok(match level {
        WireLevel::Strong => ConsistencyLevel::Strong,
        WireLevel::Session => ConsistencyLevel::Session,
        WireLevel::Bounded => ConsistencyLevel::Bounded,
        WireLevel::Eventually => ConsistencyLevel::Eventually,
        WireLevel::Customized => ConsistencyLevel::Customized,
    })
}

fn check_time_to_live(seconds: Option<&String>) -> Result<(), CallFailure> {
    match seconds.map(|text| text.trim()) {
        None | Some("") => Ok(()),
        Some(text) => match text.parse::<i64>() {
            Ok(-1..) => Ok(()),
            _ => Err(CallFailure::parameter(format!(
                "collection TTL is out of range, expect [-1, {}], got {text}",
                i64::MAX
            ))),
        },
    }
}

/// Drops a collection. One that is not there is fine.
pub(super) fn drop(
    call: &Call,
    request: wire::DropCollectionRequest,
) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    match call.database().apply(EntryChange::DropCollection { place }) {
        Ok(applied) => {
            if let Subject::Collection(id) = applied.subject {
                call.forget(id);
            }
            Ok(Status::default())
        }
        Err(DatabaseError::Catalog(CatalogError::NotFound {
            kind: EntityKind::Collection,
            ..
        })) => Ok(Status::default()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn has(
    call: &Call,
    request: wire::HasCollectionRequest,
) -> Result<wire::BoolResponse, CallFailure> {
    let sight = call.sight();
    let database = call.database_name(&request.db_name);
    sight.database(database)?;
    names::collection(&request.collection_name)?;
    let value = sight.collection(database, &request.collection_name).is_ok();
    Ok(wire::BoolResponse { value, ..Default::default() })
}

pub(super) fn rename(
    call: &Call,
    request: wire::RenameCollectionRequest,
) -> Result<Status, CallFailure> {
    let place = CollectionPath::new(call.database_name(&request.db_name), request.old_name);
    names::collection(&request.new_name)?;
    let database = match request.new_db_name.is_empty() {
        true => place.database.clone(),
        false => request.new_db_name,
    };
    let to = CollectionPath::new(database, request.new_name);
    let catalog = call.catalog();
    catalog.collection(&place.database, &place.collection)?;
    if catalog.collection(&to.database, &to.collection).is_ok() {
        return Err(CallFailure::new(
            Code::Unexpected,
            format!(
                "duplicated new collection name {}:{} with other collection name or alias",
                to.database, to.collection
            ),
        ));
    }
    call.database().apply(EntryChange::RenameCollection { place, to })?;
    Ok(Status::default())
}

pub(super) fn alter(
    call: &Call,
    request: wire::AlterCollectionRequest,
) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    let mut set = properties(request.properties);
    check_time_to_live(set.get(TIME_TO_LIVE))?;
    refuse_zones(|name| set.get(name).map(String::as_str))?;
    if let Some(enabled) = set.remove(DYNAMIC) {
        if !enabled.eq_ignore_ascii_case("true") {
            return Err(CallFailure::parameter(
                "dynamic schema cannot supported to be disabled: invalid parameter",
            ));
        }
        call.database().apply(EntryChange::AddDynamicField { place: place.clone() })?;
    }
    let remove = request.delete_keys;
    if remove.iter().any(|key| key == DYNAMIC) {
        return Err(CallFailure::parameter(format!("cannot delete key {DYNAMIC}")));
    }
    let (description, consistency) = (set.remove("collection.description"), None);
    let change = EntryChange::AlterCollection { place, set, remove, description, consistency };
    call.database().apply(change)?;
    Ok(Status::default())
}

pub(super) fn alter_field(
    call: &Call,
    request: wire::AlterCollectionFieldRequest,
) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    let mut set = properties(request.properties);
    if let Some(name) = set.keys().find(|name| !ALTERABLE.contains(&name.as_str())) {
        return Err(CallFailure::parameter(format!(
            "{name} does not allow update in collection field param: invalid parameter"
        )));
    }
    let mut number = |name: &str| {
        let parse = |text: String| {
            let wrong = |_| CallFailure::parameter(format!("{name} [{text}] is invalid"));
            text.trim().parse::<u32>().map_err(wrong)
        };
        set.remove(name).map(parse).transpose()
    };
    let (max_bytes, max_capacity) = (number(MAX_LENGTH)?, number(MAX_CAPACITY)?);
    let description = set.remove(FIELD_DESCRIPTION);
    let alteration =
        FieldAlteration { max_bytes, max_capacity, description, set, remove: request.delete_keys };
    let change = EntryChange::AlterField { place, field: request.field_name, alteration };
    call.database().apply(change)?;
    Ok(Status::default())
}

pub(super) fn add_field(
    call: &Call,
    request: wire::AddCollectionFieldRequest,
) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    let field = FieldSchema::decode(request.schema.as_slice())
        .map_err(|error| CallFailure::parameter(format!("the field is malformed: {error}")))?;
    if field.is_clustering_key {
        return Err(CallFailure::parameter(format!(
            "not support to add clustering key field, field name = {}",
            field.name
        )));
    }
    let field = Box::new(schema_in::field(field)?);
    let collection = place.collection.clone();
    match call.database().apply(EntryChange::AddField { place, field }) {
        Ok(_) => Ok(Status::default()),
        Err(DatabaseError::Catalog(CatalogError::Schema(SchemaError::TooManyFields {
            ..
        }))) => Err(CallFailure::parameter(format!(
            "The number of fields has reached the maximum value {MAX_FIELDS}"
        ))),
        Err(DatabaseError::Catalog(CatalogError::Schema(error))) => {
            Err(refused(&error, &collection))
        }
        Err(error) => Err(error.into()),
    }
}

/// Deletes all rows.
pub(super) fn truncate(
    call: &Call,
    request: wire::TruncateCollectionRequest,
) -> Result<wire::TruncateCollectionResponse, CallFailure> {
    let collection = call.collection(&request.db_name, &request.collection_name)?;
    collection.delete_matching(Filter::new("true"), None)?;
    Ok(wire::TruncateCollectionResponse::default())
}
