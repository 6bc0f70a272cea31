//! What of the catalogue a caller may see: for the calls that tell what there is.
//!
//! A name that may not be seen is answered as one that is not there, in the same words, so that nobody
//! learns which names others have. Who may see what is decided name by name, by grants; where nobody is
//! asked who he is, and for calls with a right of another kind, everything is seen.

use std::sync::Arc;

use pipeann_db::catalog::limits::DEFAULT_DATABASE;
use pipeann_db::catalog::{
    CatalogError, CollectionEntry as Entry, CollectionId, DatabaseEntry, EntityKind, Snapshot,
};

use super::viewer::Viewer;

/// See the module's description.
pub(super) struct Sight<'c> {
    catalog: Arc<Snapshot>,
    /// Who looks; `None` sees everything.
    viewer: Option<Viewer<'c>>,
}

impl<'c> Sight<'c> {
    pub(super) fn new(catalog: Arc<Snapshot>, viewer: Option<Viewer<'c>>) -> Self {
        Self { catalog, viewer }
    }

    fn sees_database(&self, name: &str) -> bool {
        // It is always there, so that to see it tells nothing.
        name == DEFAULT_DATABASE
            || self.viewer.as_ref().is_none_or(|viewer| viewer.sees_database(name))
    }

    fn sees(&self, database: &str, entry: &Entry) -> bool {
        self.viewer.as_ref().is_none_or(|viewer| viewer.sees(database, &entry.name))
    }

    /// As [`Snapshot::databases`].
    pub(super) fn databases(&self) -> impl Iterator<Item = (&str, &Arc<DatabaseEntry>)> {
        self.catalog.databases().filter(|(name, _)| self.sees_database(name))
    }

    /// As [`Snapshot::database`].
    pub(super) fn database(&self, name: &str) -> Result<&Arc<DatabaseEntry>, CatalogError> {
        let found = self.catalog.database(name)?;
        match self.sees_database(name) {
            true => Ok(found),
            false => Err(missing(EntityKind::Database, name, "the catalogue")),
        }
    }

    /// As [`Snapshot::collections`].
    pub(super) fn collections<'s>(
        &'s self,
        database: &'s str,
    ) -> Result<impl Iterator<Item = &'s Arc<Entry>>, CatalogError> {
        self.database(database)?;
        let all = self.viewer.as_ref().is_none_or(|viewer| viewer.sees_all_of(database));
        let collections = self.catalog.collections(database)?;
        Ok(collections.filter(move |entry| all || self.sees(database, entry)))
    }

    /// As [`Snapshot::collection`].
    pub(super) fn collection(
        &self,
        database: &str,
        name: &str,
    ) -> Result<&Arc<Entry>, CatalogError> {
        let found = self.catalog.collection(database, name);
        self.shown(EntityKind::Collection, database, name, found)
    }

    /// What was found by a name, where it is seen: whoever may be told of it is, though its database may not
    /// be listed to him.
    fn shown<'s>(
        &'s self,
        kind: EntityKind,
        database: &str,
        name: &str,
        found: Result<&'s Arc<Entry>, CatalogError>,
    ) -> Result<&'s Arc<Entry>, CatalogError> {
        match found {
            Ok(entry) if self.sees(database, entry) => Ok(entry),
            hidden => {
                self.database(database)?;
                hidden?;
                Err(missing(kind, name, database))
            }
        }
    }

    /// As [`Snapshot::collection_by_id`].
    pub(super) fn collection_by_id(&self, id: CollectionId) -> Option<&Arc<Entry>> {
        let entry = self.catalog.collection_by_id(id)?;
        let home = self.catalog.home_of(entry)?;
        self.sees(home, entry).then_some(entry)
    }

    /// As [`Snapshot::alias`].
    pub(super) fn alias(&self, database: &str, alias: &str) -> Result<&Arc<Entry>, CatalogError> {
        self.shown(EntityKind::Alias, database, alias, self.catalog.alias(database, alias))
    }

    /// As [`Snapshot::aliases`].
    pub(super) fn aliases<'s>(
        &'s self,
        database: &'s str,
    ) -> Result<impl Iterator<Item = (&'s str, &'s Arc<Entry>)>, CatalogError> {
        self.database(database)?;
        let aliases = self.catalog.aliases(database)?;
        Ok(aliases.filter(move |(_, entry)| self.sees(database, entry)))
    }
}

/// What is said of a name that is not there.
fn missing(kind: EntityKind, name: &str, within: &str) -> CatalogError {
    CatalogError::NotFound { kind, name: name.to_owned(), within: within.to_owned() }
}
