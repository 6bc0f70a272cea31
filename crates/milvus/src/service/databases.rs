//! Databases.

use pipeann_db::catalog::{CatalogError, EntityKind, EntryChange};
use pipeann_db::database::DatabaseError;

use super::frontend::Call;
use crate::convert::instants::refuse_zones;
use crate::convert::names;
use crate::convert::parameters::{pairs, properties};
use crate::convert::timestamps::hybrid;
use crate::proto::common::Status;
use crate::proto::milvus as wire;
use crate::status::CallFailure;

pub(super) fn create(
    call: &Call,
    request: wire::CreateDatabaseRequest,
) -> Result<Status, CallFailure> {
    names::database(&request.db_name)?;
    let properties = properties(request.properties);
    refuse_zones(|name| properties.get(name).map(String::as_str))?;
    call.database().apply(EntryChange::CreateDatabase { name: request.db_name, properties })?;
    Ok(Status::default())
}

/// Drops a database. One that is not there is fine.
pub(super) fn drop(call: &Call, request: wire::DropDatabaseRequest) -> Result<Status, CallFailure> {
    names::database(&request.db_name)?;
    match call.database().apply(EntryChange::DropDatabase { name: request.db_name }) {
        Ok(_) => Ok(Status::default()),
        Err(DatabaseError::Catalog(CatalogError::NotFound {
            kind: EntityKind::Database, ..
        })) => Ok(Status::default()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn list(
    call: &Call,
    _request: wire::ListDatabasesRequest,
) -> Result<wire::ListDatabasesResponse, CallFailure> {
    let mut response = wire::ListDatabasesResponse::default();
    for (name, database) in call.sight().databases() {
        response.db_names.push(name.to_owned());
        response.created_timestamp.push(hybrid(database.created));
        response.db_ids.push(database.id.0.cast_signed());
    }
    Ok(response)
}

pub(super) fn describe(
    call: &Call,
    request: wire::DescribeDatabaseRequest,
) -> Result<wire::DescribeDatabaseResponse, CallFailure> {
    let catalog = call.catalog();
    let name = call.database_name(&request.db_name);
    let database = catalog.database(name)?;
    Ok(wire::DescribeDatabaseResponse {
        db_name: name.to_owned(),
        db_id: database.id.0.cast_signed(),
        created_timestamp: hybrid(database.created),
        properties: pairs(&database.properties),
        ..Default::default()
    })
}

pub(super) fn alter(
    call: &Call,
    request: wire::AlterDatabaseRequest,
) -> Result<Status, CallFailure> {
    let name = call.database_name(&request.db_name).to_owned();
    let set = properties(request.properties);
    refuse_zones(|name| set.get(name).map(String::as_str))?;
    if set.is_empty() && request.delete_keys.is_empty() {
        return Err(CallFailure::parameter(
            "alter database with empty properties and delete keys, expected to set either properties or delete keys",
        ));
    }
    call.database().apply(EntryChange::AlterDatabase { name, set, remove: request.delete_keys })?;
    Ok(Status::default())
}
