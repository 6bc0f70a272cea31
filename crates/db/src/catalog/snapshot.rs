//! The catalogue at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::entries::{
    CollectionEntry, CollectionId, DatabaseEntry, DatabaseId, NameTarget, Properties, UnixMs,
};
use super::error::{CatalogError, EntityKind};
use super::limits::DEFAULT_DATABASE;
use super::shared_map::SharedMap;

/// All databases and collections, unchanging. Snapshots share what did not change between them, so
/// that one more costs little.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub(super) revision: u64,
    pub(super) next_id: u64,
    pub(super) databases: BTreeMap<String, Arc<DatabaseEntry>>,
    pub(super) collections: SharedMap<CollectionId, Arc<CollectionEntry>>,
}

impl Snapshot {
    /// The catalogue of a new place: the default database and nothing in it.
    pub(super) fn initial(now: UnixMs) -> Self {
        let default = DatabaseEntry {
            id: DatabaseId(1),
            created: now,
            properties: Properties::new(),
            names: SharedMap::default(),
        };
        Self {
            revision: 1,
            next_id: 2,
            databases: BTreeMap::from([(DEFAULT_DATABASE.to_owned(), Arc::new(default))]),
            collections: SharedMap::default(),
        }
    }

    /// Counts the changes, from 1.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The id that the next thing to be created gets; of several created by one change, the
    /// first: a collection before its partitions.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// All databases by name.
    pub fn databases(&self) -> impl Iterator<Item = (&str, &Arc<DatabaseEntry>)> {
        self.databases.iter().map(|(name, database)| (name.as_str(), database))
    }

    /// The database of this name.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`].
    pub fn database(&self, name: &str) -> Result<&Arc<DatabaseEntry>, CatalogError> {
        let found = self.databases.get(name);
        found.ok_or_else(|| CatalogError::not_found(EntityKind::Database, name, "the catalogue"))
    }

    /// All collections of all databases by id.
    pub fn all_collections(&self) -> impl Iterator<Item = &Arc<CollectionEntry>> {
        self.collections.values()
    }

    /// The collections of a database by name.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] where there is no such database.
    pub fn collections(
        &self,
        database: &str,
    ) -> Result<impl Iterator<Item = &Arc<CollectionEntry>>, CatalogError> {
        Ok(self.database(database)?.names.values().filter_map(|target| match target {
            NameTarget::Collection(id) => Some(&self.collections[id]),
            NameTarget::Alias(_) => None,
        }))
    }

    /// The collection of this name or alias.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] where there is no such database or collection.
    pub fn collection(
        &self,
        database: &str,
        name: &str,
    ) -> Result<&Arc<CollectionEntry>, CatalogError> {
        self.target(database, name).map(|target| &self.collections[&target.collection()])
    }

    /// The collection of this id.
    pub fn collection_by_id(&self, id: CollectionId) -> Option<&Arc<CollectionEntry>> {
        self.collections.get(&id)
    }

    /// The name of the database that a collection is in.
    pub fn home_of(&self, collection: &CollectionEntry) -> Option<&str> {
        let home = self.databases.iter().find(|(_, database)| database.id == collection.database);
        home.map(|(name, _)| name.as_str())
    }

    /// The collection that an alias stands for.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] where there is no such database or alias.
    pub fn alias(
        &self,
        database: &str,
        alias: &str,
    ) -> Result<&Arc<CollectionEntry>, CatalogError> {
        match self.database(database)?.names.get(alias) {
            Some(NameTarget::Alias(id)) => Ok(&self.collections[id]),
            _ => Err(CatalogError::not_found(EntityKind::Alias, alias, database)),
        }
    }

    /// The aliases of a database with the collections that they stand for, by alias.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] where there is no such database.
    pub fn aliases(
        &self,
        database: &str,
    ) -> Result<impl Iterator<Item = (&str, &Arc<CollectionEntry>)>, CatalogError> {
        Ok(self.database(database)?.names.iter().filter_map(|(name, target)| match target {
            NameTarget::Alias(id) => Some((name.as_str(), &self.collections[id])),
            NameTarget::Collection(_) => None,
        }))
    }

    /// The aliases of a collection, by name.
    pub fn aliases_of(&self, collection: &CollectionEntry) -> Vec<&str> {
        let home = self.databases.values().find(|database| database.id == collection.database);
        let names = home.into_iter().flat_map(|database| database.names.iter());
        let alias = NameTarget::Alias(collection.id);
        names.filter(|(_, target)| **target == alias).map(|(name, _)| name.as_str()).collect()
    }

    pub(super) fn target(&self, database: &str, name: &str) -> Result<NameTarget, CatalogError> {
        let found = self.database(database)?.names.get(name).copied();
        found.ok_or_else(|| CatalogError::not_found(EntityKind::Collection, name, database))
    }
}
