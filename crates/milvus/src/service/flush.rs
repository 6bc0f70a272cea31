//! Flushes. What was written is on stable storage when a write is answered; a flush moves it from the
//! log to where it stays, and has ended when it is answered.

use std::collections::HashMap;

use super::frontend::Call;
use super::segments::segment_ids;
use crate::convert::names::check_count;
use crate::proto::milvus as wire;
use crate::proto::schema::LongArray;
use crate::status::CallFailure;

pub(super) fn flush(
    call: &Call,
    request: wire::FlushRequest,
) -> Result<wire::FlushResponse, CallFailure> {
    check_count("collections", request.collection_names.len())?;
    let mut coll_seg_i_ds = HashMap::new();
    let mut coll_flush_ts = HashMap::new();
    for name in &request.collection_names {
        let entry = call.entry(&request.db_name, name)?;
        call.collection(&request.db_name, name)?.flush()?;
        coll_seg_i_ds.insert(name.clone(), LongArray { data: segment_ids(&entry) });
        coll_flush_ts.insert(name.clone(), call.timestamp());
    }
    Ok(wire::FlushResponse {
        db_name: request.db_name.clone(),
        coll_seg_i_ds,
        coll_flush_ts,
        ..Default::default()
    })
}

/// Flushes all collections of all databases, or of one that is named.
pub(super) fn all(
    call: &Call,
    request: wire::FlushAllRequest,
) -> Result<wire::FlushAllResponse, CallFailure> {
    let catalog = call.catalog();
    for (database, _) in catalog.databases() {
        if !request.db_name.is_empty() && request.db_name != database {
            continue;
        }
        for entry in catalog.collections(database)? {
            // One that is dropped meanwhile needs no flush.
            if let Ok(collection) = call.database().collection(database, &entry.name) {
                collection.flush()?;
            }
        }
    }
    Ok(wire::FlushAllResponse { flush_all_ts: call.timestamp(), ..Default::default() })
}

pub(super) fn state(
    _call: &Call,
    _request: wire::GetFlushStateRequest,
) -> Result<wire::GetFlushStateResponse, CallFailure> {
    Ok(wire::GetFlushStateResponse { flushed: true, ..Default::default() })
}

pub(super) fn all_state(
    _call: &Call,
    _request: wire::GetFlushAllStateRequest,
) -> Result<wire::GetFlushAllStateResponse, CallFailure> {
    Ok(wire::GetFlushAllStateResponse { flushed: true, ..Default::default() })
}
