//! What collections there are, and what they are like.

use pipeann_db::catalog::{
    CollectionEntry as Entry, ConsistencyLevel, NOTED, Snapshot, WantedLoad,
};

use super::frontend::Call;
use crate::convert::names::check_count;
use crate::convert::parameters::pairs;
use crate::convert::schema_out;
use crate::convert::timestamps::{hybrid, schema_timestamp};
use crate::proto::common::ConsistencyLevel as WireLevel;
use crate::proto::milvus as wire;
use crate::status::CallFailure;

/// One collection, by name, alias or id.
pub(super) fn one(
    call: &Call,
    request: wire::DescribeCollectionRequest,
) -> Result<wire::DescribeCollectionResponse, CallFailure> {
    let named = (request.collection_name.as_str(), request.collection_id);
    let entry =
        call.named_or_numbered(&request.db_name, named).map_err(CallFailure::when_looked_up)?;
    Ok(describe(&call.catalog(), call.database_name(&request.db_name), &entry))
}

/// `named` is the database of the request: by its number, a collection of another one may be meant.
fn describe(catalog: &Snapshot, named: &str, entry: &Entry) -> wire::DescribeCollectionResponse {
    let database = catalog.home_of(entry).unwrap_or(named);
    let aliases = catalog.aliases_of(entry).into_iter().map(str::to_owned).collect();
    let mut told = entry.properties.clone();
    told.retain(|key, _| !key.starts_with(NOTED));
    wire::DescribeCollectionResponse {
        schema: Some(schema_out::schema(&entry.name, &entry.schema)),
        collection_id: entry.id.0.cast_signed(),
        created_timestamp: hybrid(entry.created),
        created_utc_timestamp: entry.created.0,
        shards_num: entry.shards.cast_signed(),
        aliases,
        consistency_level: consistency(entry.consistency).into(),
        collection_name: entry.name.clone(),
        properties: pairs(&told),
        db_name: database.to_owned(),
        num_partitions: count(entry.partitions.len()),
        db_id: entry.database.0.cast_signed(),
        update_timestamp: schema_timestamp(entry),
        ..Default::default()
    }
}

fn consistency(level: ConsistencyLevel) -> WireLevel {
    match level {
        ConsistencyLevel::Strong => WireLevel::Strong,
        ConsistencyLevel::Session => WireLevel::Session,
        ConsistencyLevel::Bounded => WireLevel::Bounded,
        ConsistencyLevel::Eventually => WireLevel::Eventually,
        ConsistencyLevel::Customized => WireLevel::Customized,
    }
}

/// Several collections; each has a status of its own.
pub(super) fn several(
    call: &Call,
    request: wire::BatchDescribeCollectionRequest,
) -> Result<wire::BatchDescribeCollectionResponse, CallFailure> {
    use crate::status::Response as _;
    let named = request.collection_name.len().saturating_add(request.collection_id.len());
    check_count("collections", named)?;
    let catalog = call.catalog();
    let database = call.database_name(&request.db_name);
    let by_name = request.collection_name.iter().map(|name| (name.as_str(), 0));
    let by_id = request.collection_id.iter().map(|id| ("", *id));
    let each = |named| {
        let entry = call.named_or_numbered(database, named);
        wire::DescribeCollectionResponse::of(
            entry.map(|entry| describe(&catalog, database, &entry)),
        )
    };
    let responses = by_name.chain(by_id).map(each).collect();
    Ok(wire::BatchDescribeCollectionResponse { responses, ..Default::default() })
}

/// The collections of a database; only those that are loaded where that is asked for.
pub(super) fn list(
    call: &Call,
    request: wire::ShowCollectionsRequest,
) -> Result<wire::ShowCollectionsResponse, CallFailure> {
    let sight = call.sight();
    let in_memory = request.r#type() == wire::ShowType::InMemory;
    let names = &request.collection_names;
    check_count("collections", names.len())?;
    let mut response = wire::ShowCollectionsResponse::default();
    for entry in sight.collections(call.database_name(&request.db_name))? {
        let loaded = entry.load != WantedLoad::Released;
        if in_memory && !loaded || !names.is_empty() && !names.contains(&entry.name) {
            continue;
        }
        response.collection_names.push(entry.name.clone());
        response.collection_ids.push(entry.id.0.cast_signed());
        response.created_timestamps.push(hybrid(entry.created));
        response.created_utc_timestamps.push(entry.created.0);
        response.in_memory_percentages.push(if loaded { 100 } else { 0 });
        response.query_service_available.push(loaded);
        response.shards_num.push(entry.shards.cast_signed());
    }
    Ok(response)
}

/// A number of things on the wire.
pub(super) fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
