//! Inserts, upserts and deletes. What is answered is on stable storage, and visible.

use std::borrow::Cow;

use pipeann_db::catalog::CollectionEntry as Entry;
use pipeann_db::collection::{Filter, InsertOutcome, keys_of_request};
use pipeann_db::replication::requests::RequestAnswer;
use pipeann_db::schema::{Batch, PrimaryKey};

use super::frontend::Call;
use super::loading::check_nameable;
use crate::convert::columns_in::batch;
use crate::convert::columns_out::ids;
use crate::convert::names;
use crate::convert::templates::templates;
use crate::convert::timestamps::schema_timestamp;
use crate::proto::milvus as wire;
use crate::proto::schema::FieldData;
use crate::status::{CallFailure, Code};

/// Is a property of a collection that assigns keys, and takes those that rows bring all the same.
const TAKES_KEYS: &str = "allow_insert_auto_id";

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

impl Call {
    /// The schema that a client has to know still: any, where its request was applied before.
    fn known_schema(&self, named: u64) -> u64 {
        if self.applied().is_some() { 0 } else { named }
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
    let known_schema = call.known_schema(request.schema_timestamp);
    let rows = Rows { fields: request.fields_data, count: request.num_rows, known_schema };
    let (batch, partition) = (rows.into_batch(&entry)?, partition(&request.partition_name)?);
    let written = match call.applied() {
        Some(answer) => WrittenRows::again(&entry, &batch, answer),
        // They are kept as an upsert keeps them, and none of them is assigned later.
        None if keeps_keys(&entry, &batch) => {
            WrittenRows::now(call, collection.upsert(batch, partition)?)
        }
        None => WrittenRows::now(call, collection.insert(batch, partition)?),
    };
    Ok(written.into_result(call, &entry, false))
}

/// Whether rows bring keys to a collection that assigns them, and may.
fn keeps_keys(entry: &Entry, batch: &Batch) -> bool {
    let key = &entry.schema.primary_key().spec;
    let may = |text: &String| text.eq_ignore_ascii_case("true");
    key.auto_id
        && entry.properties.get(TAKES_KEYS).is_some_and(may)
        && batch.columns.iter().any(|column| column.field == key.name)
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
    let known_schema = call.known_schema(request.schema_timestamp);
    let rows = Rows { fields: request.fields_data, count: request.num_rows, known_schema };
    let (batch, partition) = (rows.into_batch(&entry)?, partition(&request.partition_name)?);
    let written = match (call.applied(), request.partial_update) {
        (Some(answer), _) => WrittenRows::again(&entry, &batch, answer),
        (None, true) => WrittenRows::now(call, collection.upsert_some(batch, partition)?),
        (None, false) => WrittenRows::now(call, collection.upsert(batch, partition)?),
    };
    Ok(written.into_result(call, &entry, true))
}

/// What is answered of rows that were written.
struct WrittenRows {
    keys: Vec<PrimaryKey>,
    count: u64,
}

impl WrittenRows {
    /// By this call.
    fn now(call: &Call, outcome: InsertOutcome) -> Self {
        let count = outcome.rows.end - outcome.rows.start;
        let (first_row, removed) = (outcome.rows.start, outcome.replaced);
        call.has_applied(RequestAnswer { first_row, rows: count, removed });
        Self { keys: outcome.keys, count }
    }

    /// When the same request came before.
    fn again(entry: &Entry, batch: &Batch, answer: RequestAnswer) -> Self {
        Self { keys: keys_of_request(&entry.schema, batch, answer), count: answer.rows }
    }

    fn into_result(self, call: &Call, entry: &Entry, upsert: bool) -> wire::MutationResult {
        let count = i64::try_from(self.count).unwrap_or(i64::MAX);
        wire::MutationResult {
            succ_index: (0..u32::try_from(self.count).unwrap_or(u32::MAX)).collect(),
            i_ds: Some(ids(&entry.schema, self.keys.into_iter())),
            insert_cnt: count,
            delete_cnt: if upsert { count } else { 0 },
            upsert_cnt: if upsert { count } else { 0 },
            timestamp: call.timestamp(),
            ..Default::default()
        }
    }
}

/// Deletes by filter. The keys are not in the answer: clients would take it for that of an old server.
pub(super) fn delete(
    call: &Call,
    request: wire::DeleteRequest,
) -> Result<wire::MutationResult, CallFailure> {
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    let collection = call.collection(&request.db_name, &request.collection_name)?;
    let templates = templates(request.expr_template_values)?;
    let filter =
        Filter { expression: Cow::Borrowed(&request.expr), templates: Cow::Owned(templates) };
    let partitions = partition(&request.partition_name)?.map(|name| [name]);
    if partitions.is_some() {
        check_nameable(&entry, std::slice::from_ref(&request.partition_name))?;
    }
    let partitions = partitions.as_ref().map(|names| names.as_slice());
    let removed = match call.applied() {
        Some(answer) => answer.removed,
        None => {
            let removed = collection.delete_matching(filter, partitions)?.rows;
            call.has_applied(RequestAnswer { removed, ..RequestAnswer::default() });
            removed
        }
    };
    Ok(wire::MutationResult {
        delete_cnt: i64::try_from(removed).unwrap_or(i64::MAX),
        i_ds: Some(Default::default()),
        timestamp: call.timestamp(),
        ..Default::default()
    })
}
