//! Inserts, upserts and deletes. What is answered is on stable storage, and visible.

use std::borrow::Cow;

use std::sync::Arc;

use pipeann_db::catalog::CollectionEntry as Entry;
use pipeann_db::collection::{Filter, InsertOutcome};
use pipeann_db::schema::Batch;

use super::frontend::Call;
use crate::convert::columns_in::batch;
use crate::convert::columns_out::ids;
use crate::convert::names;
use crate::convert::templates::templates;
use crate::convert::timestamps::schema_timestamp;
use crate::proto::milvus as wire;
use crate::proto::schema::FieldData;
use crate::status::{CallFailure, Code};

/// The rows of a request.
struct Rows {
    fields: Vec<FieldData>,
    count: u32,
    /// The schema that the client knows; 0 where it does not say.
    known_schema: u64,
}

impl Rows {
    /// Checks that the client knows the schema of today; it asks for it anew where it does not.
    fn into_batch(self, entry: &Entry) -> Result<Batch, CallFailure> {
        if self.known_schema != 0 && self.known_schema != schema_timestamp(entry) {
            let reason = format!("collection schema mismatch[collection={}]", entry.name);
            return Err(CallFailure::new(Code::SchemaMismatch, reason));
        }
        batch(&entry.schema, self.fields, self.count)
    }
}

/// The partition that is named, if any.
fn partition(name: &str) -> Result<Option<&str>, CallFailure> {
    let named = Some(name).filter(|name| !name.is_empty());
    named.map(names::partition).transpose()?;
    Ok(named)
}

pub(super) fn insert(
    call: &Call,
    request: wire::InsertRequest,
) -> Result<wire::MutationResult, CallFailure> {
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    let collection = call.collection(&request.db_name, &request.collection_name)?;
    let known_schema = request.schema_timestamp;
    let rows = Rows { fields: request.fields_data, count: request.num_rows, known_schema };
    let outcome =
        collection.insert(rows.into_batch(&entry)?, partition(&request.partition_name)?)?;
    Ok(written(call, &entry, outcome, false))
}

pub(super) fn upsert(
    call: &Call,
    request: wire::UpsertRequest,
) -> Result<wire::MutationResult, CallFailure> {
    if !request.field_ops.is_empty() {
        return Err(CallFailure::unsupported("changing an array in place (field_ops)"));
    }
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    let collection = call.collection(&request.db_name, &request.collection_name)?;
    let known_schema = request.schema_timestamp;
    let rows = Rows { fields: request.fields_data, count: request.num_rows, known_schema };
    let (batch, partition) = (rows.into_batch(&entry)?, partition(&request.partition_name)?);
    let outcome = match request.partial_update {
        true => collection.upsert_some(batch, partition)?,
        false => collection.upsert(batch, partition)?,
    };
    Ok(written(call, &entry, outcome, true))
}

fn written(
    call: &Call,
    entry: &Arc<Entry>,
    outcome: InsertOutcome,
    upsert: bool,
) -> wire::MutationResult {
    let rows = outcome.rows.end - outcome.rows.start;
    let count = i64::try_from(rows).unwrap_or(i64::MAX);
    wire::MutationResult {
        succ_index: (0..u32::try_from(rows).unwrap_or(u32::MAX)).collect(),
        i_ds: Some(ids(&entry.schema, outcome.keys.into_iter())),
        insert_cnt: count,
        delete_cnt: if upsert { count } else { 0 },
        upsert_cnt: if upsert { count } else { 0 },
        timestamp: call.timestamp(),
        ..Default::default()
    }
}

/// Deletes by filter. The keys are not in the answer: clients would take it for that of an old server.
pub(super) fn delete(
    call: &Call,
    request: wire::DeleteRequest,
) -> Result<wire::MutationResult, CallFailure> {
    let collection = call.collection(&request.db_name, &request.collection_name)?;
    let templates = templates(request.expr_template_values)?;
    let filter =
        Filter { expression: Cow::Borrowed(&request.expr), templates: Cow::Owned(templates) };
    let partitions = partition(&request.partition_name)?.map(|name| [name]);
    let partitions = partitions.as_ref().map(|names| names.as_slice());
    let deleted = collection.delete_matching(filter, partitions)?;
    Ok(wire::MutationResult {
        delete_cnt: i64::try_from(deleted.rows).unwrap_or(i64::MAX),
        i_ds: Some(Default::default()),
        timestamp: call.timestamp(),
        ..Default::default()
    })
}
