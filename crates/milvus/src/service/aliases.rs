//! Aliases.

use pipeann_db::catalog::{CatalogError, Change, Kind};
use pipeann_db::database::DatabaseError;

use super::door::Call;
use crate::proto::common::Status;
use crate::proto::milvus as wire;
use crate::status::Failure;

pub(super) fn create(call: &Call, request: wire::CreateAliasRequest) -> Result<Status, Failure> {
    let place = call.place(&request.db_name, request.collection_name);
    call.database().apply(Change::CreateAlias { place, alias: request.alias })?;
    Ok(Status::default())
}

/// Drops an alias. One that is not there is fine.
pub(super) fn drop(call: &Call, request: wire::DropAliasRequest) -> Result<Status, Failure> {
    let database = call.database_name(&request.db_name).to_owned();
    match call.database().apply(Change::DropAlias { database, alias: request.alias }) {
        Ok(_) => Ok(Status::default()),
        Err(DatabaseError::Catalog(CatalogError::NotFound { kind: Kind::Alias, .. })) => {
            Ok(Status::default())
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn alter(call: &Call, request: wire::AlterAliasRequest) -> Result<Status, Failure> {
    let place = call.place(&request.db_name, request.collection_name);
    call.database().apply(Change::AlterAlias { place, alias: request.alias })?;
    Ok(Status::default())
}

pub(super) fn describe(
    call: &Call,
    request: wire::DescribeAliasRequest,
) -> Result<wire::DescribeAliasResponse, Failure> {
    let database = call.database_name(&request.db_name);
    let collection = call.catalog().alias(database, &request.alias)?.name.clone();
    Ok(wire::DescribeAliasResponse {
        db_name: database.to_owned(),
        alias: request.alias.clone(),
        collection,
        ..Default::default()
    })
}

/// The aliases of a collection, or of all.
pub(super) fn list(
    call: &Call,
    request: wire::ListAliasesRequest,
) -> Result<wire::ListAliasesResponse, Failure> {
    let catalog = call.catalog();
    let database = call.database_name(&request.db_name);
    let of = match request.collection_name.as_str() {
        "" => None,
        name => Some(catalog.collection(database, name)?.id),
    };
    let aliases = catalog.aliases(database)?;
    let aliases = aliases.filter(|(_, collection)| of.is_none_or(|id| collection.id == id));
    Ok(wire::ListAliasesResponse {
        db_name: database.to_owned(),
        aliases: aliases.map(|(alias, _)| alias.to_owned()).collect(),
        collection_name: request.collection_name.clone(),
        ..Default::default()
    })
}
