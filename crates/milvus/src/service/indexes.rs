//! Indexes: declared, built behind the answer, looked at.

use std::sync::Arc;

use pipeann_db::catalog::{
    CollectionEntry as Entry, EntryChange, IndexDefinition, IndexState as State, Subject,
};
use pipeann_db::collection::Collection;

use super::frontend::Call;
use crate::convert::index::{
    JSON_PATH, check_change, check_field, description, first_key, keep_changes, new_index,
};
use crate::convert::parameters::{Parameters, properties};
use crate::proto::common::{IndexState, Status};
use crate::proto::milvus as wire;
use crate::status::{CallFailure, Code};

/// Declares an index and has it built. It answers at once; clients ask how far it is, until it is
/// finished: one that is there and that nobody has had built yet is built too.
pub(super) fn create(
    call: &Call,
    request: wire::CreateIndexRequest,
) -> Result<Status, CallFailure> {
    let entry = call.entry(&request.db_name, &request.collection_name);
    let entry = entry.map_err(CallFailure::when_looked_up)?;
    let parameters = Parameters::new(request.extra_params)?;
    let field = entry.schema.field(&request.field_name);
    // A key of the dynamic field is named like a field, where the path to it is given too.
    let keyed = entry.schema.dynamic_position().filter(|_| parameters.get(JSON_PATH).is_some());
    let field = field.or(keyed.map(|at| &entry.schema.fields()[at])).ok_or_else(|| {
        let name = &request.field_name;
        CallFailure::parameter(format!("cannot create index on non-exist field: {name}"))
    })?;
    let data_type = field.spec.data_type;
    let mut new = new_index(field.spec.name.clone(), data_type, request.index_name, parameters)?;
    check_field(&new, &field.spec, &entry.schema)?;
    let name = new.name.as_deref().unwrap_or(&new.field);
    if let Ok(there) = entry.index(name) {
        keep_changes(&mut new, there);
    }
    let place = call.place(&request.db_name, entry.name.clone())?;
    let collection = call.database().collection(&place.database, &place.collection)?;
    let applied = call.database().apply(EntryChange::CreateIndex { place, new })?;
    if let Subject::Index(_, id) = applied.subject
        && let Some(index) = collection.entry()?.indexes.iter().find(|index| index.id == id)
        && index.state == State::NotBuilt
    {
        collection.build_index(&index.name)?;
    }
    Ok(Status::default())
}

pub(super) fn drop(call: &Call, request: wire::DropIndexRequest) -> Result<Status, CallFailure> {
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    let index = match request.index_name.as_str() {
        "" => {
            let field = &request.field_name;
            let index = entry.indexes.iter().find(|index| field_of(&entry, index) == field);
            index.map_or_else(|| field.clone(), |index| index.name.clone())
        }
        name => name.to_owned(),
    };
    if entry.index(&index).is_err() {
        // What is not there is dropped.
        return Ok(Status::default());
    }
    let place = call.place(&request.db_name, request.collection_name)?;
    call.database().apply(EntryChange::DropIndex { place, index })?;
    Ok(Status::default())
}

pub(super) fn alter(call: &Call, request: wire::AlterIndexRequest) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    let set = properties(request.extra_params);
    check_change(&set, &request.delete_keys)?;
    let change = EntryChange::AlterIndex {
        place,
        index: request.index_name,
        set,
        remove: request.delete_keys,
    };
    call.database().apply(change)?;
    Ok(Status::default())
}

/// The field that an index was asked for by: of an index on a key of the dynamic field that key, with
/// which the path begins. Clients look for it among the indexes that they are told of.
fn field_of<'e>(entry: &'e Entry, index: &'e IndexDefinition) -> &'e str {
    let field = entry.schema.field_by_id(index.field);
    let name = field.map_or("", |field| field.spec.name.as_str());
    match index.parameters.get(JSON_PATH) {
        Some(path) if field.is_some_and(|field| field.spec.is_dynamic()) => {
            let key = first_key(path);
            if key.is_empty() { name } else { key }
        }
        _ => name,
    }
}

/// Those indexes of a collection that a request is about; at least one.
struct NamedIndexes {
    entry: Arc<Entry>,
    collection: Arc<Collection>,
    field: String,
    name: String,
}

impl NamedIndexes {
    fn new(
        call: &Call,
        (database, collection): (&str, &str),
        field: String,
        name: String,
    ) -> Result<Self, CallFailure> {
        let entry = call.entry(database, collection)?;
        let collection = call.collection(database, collection)?;
        Ok(Self { entry, collection, field, name })
    }

    /// A field is named only by clients that name no index, or by both names being those of one
    /// index.
    fn indexes(&self, call: &Call) -> Result<Vec<wire::IndexDescription>, CallFailure> {
        let rows = self.collection.count(None)?;
        let mut found = Vec::new();
        for index in &self.entry.indexes {
            let field = field_of(&self.entry, index);
            let by_name = self.name.is_empty() || self.name == index.name;
            let by_field = self.field.is_empty() || self.field == field;
            if by_name && by_field {
                // Dropped meanwhile, it is not there.
                let Ok(status) = self.collection.index_status(&index.name) else { continue };
                let mut told = description(index, field, &status, rows);
                told.index_state_fail_reason = call.without_path(told.index_state_fail_reason);
                found.push(told);
            }
        }
        if found.is_empty() {
            let (name, collection) = (&self.name, &self.entry.name);
            let reason = format!("index not found[indexName={name}][collection={collection}]");
            return Err(CallFailure::new(Code::IndexNotFound, reason));
        }
        Ok(found)
    }
}

pub(super) fn describe(
    call: &Call,
    request: wire::DescribeIndexRequest,
) -> Result<wire::DescribeIndexResponse, CallFailure> {
    let place = (request.db_name.as_str(), request.collection_name.as_str());
    let asked = NamedIndexes::new(call, place, request.field_name, request.index_name)?;
    Ok(wire::DescribeIndexResponse {
        index_descriptions: asked.indexes(call)?,
        ..Default::default()
    })
}

pub(super) fn statistics(
    call: &Call,
    request: wire::GetIndexStatisticsRequest,
) -> Result<wire::GetIndexStatisticsResponse, CallFailure> {
    let place = (request.db_name.as_str(), request.collection_name.as_str());
    let asked = NamedIndexes::new(call, place, String::new(), request.index_name)?;
    let index_descriptions = asked.indexes(call)?;
    Ok(wire::GetIndexStatisticsResponse { index_descriptions, ..Default::default() })
}

pub(super) fn state(
    call: &Call,
    request: wire::GetIndexStateRequest,
) -> Result<wire::GetIndexStateResponse, CallFailure> {
    let place = (request.db_name.as_str(), request.collection_name.as_str());
    let asked = NamedIndexes::new(call, place, request.field_name, request.index_name)?;
    let found = asked.indexes(call)?;
    // Several are finished when all are.
    let unfinished = found.iter().find(|index| index.state != i32::from(IndexState::Finished));
    let shown = unfinished.or(found.first());
    Ok(wire::GetIndexStateResponse {
        state: shown.map_or(0, |index| index.state),
        fail_reason: shown.map_or_else(String::new, |i| i.index_state_fail_reason.clone()),
        ..Default::default()
    })
}

pub(super) fn progress(
    call: &Call,
    request: wire::GetIndexBuildProgressRequest,
) -> Result<wire::GetIndexBuildProgressResponse, CallFailure> {
    let place = (request.db_name.as_str(), request.collection_name.as_str());
    let asked = NamedIndexes::new(call, place, request.field_name, request.index_name)?;
    let found = asked.indexes(call)?;
    let least = found.iter().min_by_key(|index| index.indexed_rows);
    Ok(wire::GetIndexBuildProgressResponse {
        indexed_rows: least.map_or(0, |index| index.indexed_rows),
        total_rows: least.map_or(0, |index| index.total_rows),
        ..Default::default()
    })
}
