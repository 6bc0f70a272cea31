//! Aliases.

use pipeann_db::catalog::{CatalogError, CollectionPath, EntityKind, EntryChange};
use pipeann_db::database::DatabaseError;

use super::frontend::Call;
use crate::convert::names;
use crate::proto::common::Status;
use crate::proto::milvus as wire;
use crate::status::{CallFailure, Code};

pub(super) fn create(
    call: &Call,
    request: wire::CreateAliasRequest,
) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    free_of_collections(call, &place, &request.alias)?;
    let catalog = call.catalog();
    if let Ok(there) = catalog.alias(&place.database, &request.alias)
        && catalog.collection(&place.database, &place.collection)?.id != there.id
    {
        let (alias, database) = (&request.alias, &place.database);
        return Err(CallFailure::new(
            Code::AliasTaken,
            format!(
                "{alias} is alias to another collection: {}: alias already exist[database={database}][alias={alias}]",
                there.name
            ),
        ));
    }
    call.database().apply(EntryChange::CreateAlias { place, alias: request.alias })?;
    Ok(Status::default())
}

/// Refuses what is no alias, or the name of a collection.
fn free_of_collections(
    call: &Call,
    place: &CollectionPath,
    alias: &str,
) -> Result<(), CallFailure> {
    names::alias(alias)?;
    let (catalog, database) = (call.catalog(), &place.database);
    match catalog.collection(database, alias) {
        Ok(there) if there.name == alias => Err(CallFailure::new(
            Code::AliasCollectionConflict,
            format!("alias and collection name conflict[database={database}][alias={alias}]"),
        )),
        _ => Ok(()),
    }
}

/// Drops an alias. One that is not there is fine.
pub(super) fn drop(call: &Call, request: wire::DropAliasRequest) -> Result<Status, CallFailure> {
    names::alias(&request.alias)?;
    let database = call.database_name(&request.db_name).to_owned();
    match call.database().apply(EntryChange::DropAlias { database, alias: request.alias }) {
        Ok(_) => Ok(Status::default()),
        Err(DatabaseError::Catalog(CatalogError::NotFound { kind: EntityKind::Alias, .. })) => {
            Ok(Status::default())
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn alter(call: &Call, request: wire::AlterAliasRequest) -> Result<Status, CallFailure> {
    let place = call.place(&request.db_name, request.collection_name)?;
    free_of_collections(call, &place, &request.alias)?;
    call.database().apply(EntryChange::AlterAlias { place, alias: request.alias })?;
    Ok(Status::default())
}

pub(super) fn describe(
    call: &Call,
    request: wire::DescribeAliasRequest,
) -> Result<wire::DescribeAliasResponse, CallFailure> {
    names::alias(&request.alias)?;
    let database = call.database_name(&request.db_name);
    let collection = call.sight().alias(database, &request.alias)?.name.clone();
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
) -> Result<wire::ListAliasesResponse, CallFailure> {
    let sight = call.sight();
    let database = call.database_name(&request.db_name);
    let of = match request.collection_name.as_str() {
        "" => None,
        name => Some(sight.collection(database, name)?.id),
    };
    let aliases = sight.aliases(database)?;
    let aliases = aliases.filter(|(_, collection)| of.is_none_or(|id| collection.id == id));
    Ok(wire::ListAliasesResponse {
        db_name: database.to_owned(),
        aliases: aliases.map(|(alias, _)| alias.to_owned()).collect(),
        collection_name: request.collection_name.clone(),
        ..Default::default()
    })
}
