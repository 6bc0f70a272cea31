//! How many rows there are.

use super::door::Call;
use crate::convert::parameters::pair;
use crate::proto::common::KeyValuePair;
use crate::proto::milvus as wire;
use crate::status::Failure;

pub(super) fn of_collection(
    call: &Call,
    request: wire::GetCollectionStatisticsRequest,
) -> Result<wire::GetCollectionStatisticsResponse, Failure> {
    let stats = rows(call, &request.db_name, &request.collection_name, None)?;
    Ok(wire::GetCollectionStatisticsResponse { stats, ..Default::default() })
}

pub(super) fn of_partition(
    call: &Call,
    request: wire::GetPartitionStatisticsRequest,
) -> Result<wire::GetPartitionStatisticsResponse, Failure> {
    let partition = Some(request.partition_name.as_str());
    let stats = rows(call, &request.db_name, &request.collection_name, partition)?;
    Ok(wire::GetPartitionStatisticsResponse { stats, ..Default::default() })
}

fn rows(
    call: &Call,
    database: &str,
    collection: &str,
    partition: Option<&str>,
) -> Result<Vec<KeyValuePair>, Failure> {
    let rows = call.collection(database, collection)?.count(partition)?;
    Ok(vec![pair("row_count", rows.to_string())])
}
