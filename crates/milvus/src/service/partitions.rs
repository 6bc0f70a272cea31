//! Partitions.

use pipeann_db::catalog::{CatalogError, EntityKind, EntryChange};
use pipeann_db::database::DatabaseError;

use super::frontend::Call;
use crate::convert::names;
use crate::convert::timestamps::hybrid;
use crate::proto::common::Status;
use crate::proto::milvus as wire;
use crate::status::CallFailure;

pub(super) fn create(
    call: &Call,
    request: wire::CreatePartitionRequest,
) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    names::partition(&request.partition_name)?;
    call.database()
        .apply(EntryChange::CreatePartition { place, partition: request.partition_name })?;
    Ok(Status::default())
}

/// Drops a partition. One that is not there is fine.
pub(super) fn drop(
    call: &Call,
    request: wire::DropPartitionRequest,
) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    names::partition(&request.partition_name)?;
    let change = EntryChange::DropPartition { place, partition: request.partition_name };
    match call.database().apply(change) {
        Ok(_) => Ok(Status::default()),
        Err(DatabaseError::Catalog(CatalogError::NotFound {
            kind: EntityKind::Partition, ..
        })) => Ok(Status::default()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn has(
    call: &Call,
    request: wire::HasPartitionRequest,
) -> Result<wire::BoolResponse, CallFailure> {
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    names::partition(&request.partition_name)?;
    let value = entry.partition(&request.partition_name).is_ok();
    Ok(wire::BoolResponse { value, ..Default::default() })
}

pub(super) fn list(
    call: &Call,
    request: wire::ShowPartitionsRequest,
) -> Result<wire::ShowPartitionsResponse, CallFailure> {
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    let in_memory = request.r#type() == wire::ShowType::InMemory;
    let names = &request.partition_names;
    for name in names {
        entry.partition(name)?;
    }
    let mut response = wire::ShowPartitionsResponse::default();
    for partition in &entry.partitions {
        let loaded = entry.load.includes(partition.id);
        if in_memory && !loaded || !names.is_empty() && !names.contains(&partition.name) {
            continue;
        }
        response.partition_names.push(partition.name.clone());
        response.partition_i_ds.push(partition.id.0.cast_signed());
        response.created_timestamps.push(hybrid(partition.created));
        response.created_utc_timestamps.push(partition.created.0);
        response.in_memory_percentages.push(if loaded { 100 } else { 0 });
    }
    Ok(response)
}
