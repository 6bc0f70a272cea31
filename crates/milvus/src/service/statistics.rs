//! How many rows there are.

use super::frontend::Call;
use crate::convert::parameters::pair;
use crate::proto::common::KeyValuePair;
use crate::proto::milvus as wire;
use crate::status::CallFailure;

pub(super) fn of_collection(
    call: &Call,
    request: wire::GetCollectionStatisticsRequest,
) -> Result<wire::GetCollectionStatisticsResponse, CallFailure> {
    let stats = rows(call, &request.db_name, &request.collection_name, None)?;
    Ok(wire::GetCollectionStatisticsResponse { stats, ..Default::default() })
}

pub(super) fn of_partition(
    call: &Call,
    request: wire::GetPartitionStatisticsRequest,
) -> Result<wire::GetPartitionStatisticsResponse, CallFailure> {
    let partition = Some(request.partition_name.as_str());
    let stats = rows(call, &request.db_name, &request.collection_name, partition)?;
    Ok(wire::GetPartitionStatisticsResponse { stats, ..Default::default() })
}

fn rows(
    call: &Call,
    database: &str,
    collection: &str,
    partition: Option<&str>,
) -> Result<Vec<KeyValuePair>, CallFailure> {
    let rows = call.collection(database, collection)?.count(partition)?;
    Ok(vec![pair("row_count", rows.to_string())])
}
