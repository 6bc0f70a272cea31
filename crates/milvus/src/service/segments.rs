//! Segments, replicas and compactions, for clients that look for them. A partition is told as one
//! sorted segment with the id of the partition.

use pipeann_db::catalog::CollectionEntry as Entry;
use pipeann_db::collection::Collection;

use super::describe::count;
use super::frontend::Call;
use crate::proto::common::{CompactionState, SegmentLevel, SegmentState};
use crate::proto::milvus as wire;
use crate::status::CallFailure;

/// The one node.
const NODE: i64 = 1;

pub(super) fn segment_ids(entry: &Entry) -> Vec<i64> {
    entry.partitions.iter().map(|partition| partition.id.0.cast_signed()).collect()
}

/// Rows of each partition that has some, with its id.
fn rows(entry: &Entry, collection: &Collection) -> Result<Vec<(i64, i64)>, CallFailure> {
    let mut found = Vec::new();
    for partition in &entry.partitions {
        let rows = collection.count(Some(&partition.name))?;
        if rows > 0 {
            found.push((partition.id.0.cast_signed(), i64::try_from(rows).unwrap_or(i64::MAX)));
        }
    }
    Ok(found)
}

pub(super) fn persistent(
    call: &Call,
    request: wire::GetPersistentSegmentInfoRequest,
) -> Result<wire::GetPersistentSegmentInfoResponse, CallFailure> {
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    let collection = call.collection(&request.db_name, &request.collection_name)?;
    let info = |(id, num_rows)| wire::PersistentSegmentInfo {
        segment_id: id,
        collection_id: entry.id.0.cast_signed(),
        partition_id: id,
        num_rows,
        state: SegmentState::Flushed.into(),
        level: SegmentLevel::L2.into(),
        is_sorted: true,
        ..Default::default()
    };
    let infos = rows(&entry, &collection)?.into_iter().map(info).collect();
    Ok(wire::GetPersistentSegmentInfoResponse { infos, ..Default::default() })
}

pub(super) fn loaded(
    call: &Call,
    request: wire::GetQuerySegmentInfoRequest,
) -> Result<wire::GetQuerySegmentInfoResponse, CallFailure> {
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    let collection = call.collection(&request.db_name, &request.collection_name)?;
    super::loading::check_loaded(&entry, &[])?;
    let index = entry.indexes.iter().find(|index| index.metric.is_some());
    let info = |(id, num_rows)| wire::QuerySegmentInfo {
        segment_id: id,
        collection_id: entry.id.0.cast_signed(),
        partition_id: id,
        num_rows,
        index_name: index.map_or_else(String::new, |index| index.name.clone()),
        index_id: index.map_or(0, |index| index.id.0.cast_signed()),
        node_id: NODE,
        node_ids: vec![NODE],
        state: SegmentState::Sealed.into(),
        level: SegmentLevel::L2.into(),
        is_sorted: true,
        ..Default::default()
    };
    let infos = rows(&entry, &collection)?.into_iter().map(info).collect();
    Ok(wire::GetQuerySegmentInfoResponse { infos, ..Default::default() })
}

pub(super) fn replicas(
    call: &Call,
    request: wire::GetReplicasRequest,
) -> Result<wire::GetReplicasResponse, CallFailure> {
    let named = (request.collection_name.as_str(), request.collection_id);
    let entry = call.named_or_numbered(&request.db_name, named)?;
    super::loading::check_loaded(&entry, &[])?;
    let shard = wire::ShardReplica {
        leader_id: NODE,
        dm_channel_name: format!("channel_{}v0", entry.id.0),
        node_ids: vec![NODE],
        ..Default::default()
    };
    let replica = wire::ReplicaInfo {
        replica_id: entry.id.0.cast_signed(),
        collection_id: entry.id.0.cast_signed(),
        partition_ids: segment_ids(&entry),
        shard_replicas: vec![shard],
        node_ids: vec![NODE],
        resource_group_name: super::roles::RESOURCE_GROUP.to_owned(),
    };
    Ok(wire::GetReplicasResponse { replicas: vec![replica], ..Default::default() })
}

/// Flushes, by which the space of deleted rows is given back.
pub(super) fn compact(
    call: &Call,
    request: wire::ManualCompactionRequest,
) -> Result<wire::ManualCompactionResponse, CallFailure> {
    if request.major_compaction {
        // Rows are sorted by no clustering key, and whoever asks would take it that they were.
        return Err(CallFailure::unsupported("clustering compaction (is_clustering)"));
    }
    let named = (request.collection_name.as_str(), request.collection_id);
    let entry = call.named_or_numbered(&request.db_name, named)?;
    let catalog = call.catalog();
    let database = match request.collection_name.is_empty() {
        true => catalog.home_of(&entry).unwrap_or(&request.db_name),
        false => &request.db_name,
    };
    call.collection(database, &entry.name)?.flush()?;
    Ok(wire::ManualCompactionResponse { compaction_id: call.session(), ..Default::default() })
}

pub(super) fn compaction(
    _call: &Call,
    _request: wire::GetCompactionStateRequest,
) -> Result<wire::GetCompactionStateResponse, CallFailure> {
    Ok(wire::GetCompactionStateResponse {
        state: CompactionState::Completed.into(),
        completed_plan_no: count(1),
        ..Default::default()
    })
}

pub(super) fn plans(
    _call: &Call,
    _request: wire::GetCompactionPlansRequest,
) -> Result<wire::GetCompactionPlansResponse, CallFailure> {
    Ok(wire::GetCompactionPlansResponse {
        state: CompactionState::Completed.into(),
        ..Default::default()
    })
}
