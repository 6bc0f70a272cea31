//! Changes of a draft: databases and aliases, and the dispatch of all changes.

use std::sync::Arc;

use super::apply::Edit;
use super::change::{CollectionPath, EntryChange, Subject};
use super::entries::{
    CollectionEntry, CollectionId, DatabaseEntry, DatabaseId, NameTarget, Properties, UnixMs,
};
use super::error::{CatalogError, EntityKind, Usage};
use super::limits::{DEFAULT_DATABASE, MAX_ALIASES, MAX_DATABASES};
use super::shared_map::SharedMap;
use super::snapshot::Snapshot;
use crate::schema::check_name;

impl Snapshot {
    /// Makes `change` in this draft. After an error the draft is to be thrown away.
    pub(super) fn edit(&mut self, change: EntryChange, now: UnixMs) -> Result<Edit, CatalogError> {
        match change {
            EntryChange::CreateDatabase { name, properties } => {
                self.create_database(name, properties, now)
            }
            EntryChange::DropDatabase { name } => self.drop_database(&name),
            EntryChange::AlterDatabase { name, set, remove } => {
                self.database(&name)?;
                let database = self.database_mut(&name);
                let changed = alter(&mut database.properties, set, &remove);
                Ok(Edit { changed, subject: Subject::Database(database.id) })
            }
            EntryChange::CreateCollection { place, new } => {
                self.create_collection(place, *new, now)
            }
            EntryChange::DropCollection { place } => self.drop_collection(&place),
            EntryChange::RenameCollection { place, to } => self.rename_collection(&place, to, now),
            EntryChange::AlterCollection { place, set, remove, description, consistency } => {
                let id = self.collection(&place.database, &place.collection)?.id;
                self.alter_collection(id, now, |collection| {
                    let mut changed = alter(&mut collection.properties, set, &remove);
                    if let Some(consistency) = consistency {
                        changed |= collection.consistency != consistency;
                        collection.consistency = consistency;
                    }
                    if let Some(description) = description {
                        changed |= collection.schema.description() != description;
                        collection.schema =
                            Arc::new(collection.schema.with_description(description));
                    }
                    Ok(changed)
                })
            }
            EntryChange::AddField { place, field } => self.add_field(&place, *field, now),
            EntryChange::AlterField { place, field, alteration } => {
                self.alter_field(&place, &field, &alteration, now)
            }
            EntryChange::AddDynamicField { place } => self.add_dynamic_field(&place, now),
            EntryChange::CreateAlias { place, alias } => self.create_alias(&place, alias),
            EntryChange::AlterAlias { place, alias } => self.alter_alias(&place, &alias),
            EntryChange::DropAlias { database, alias } => {
                let id = self.alias(&database, &alias)?.id;
                self.database_mut(&database).names.remove(&alias);
                Ok(Edit::made(Subject::Collection(id)))
            }
            EntryChange::CreatePartition { place, partition } => {
                self.create_partition(&place, partition, now)
            }
            EntryChange::DropPartition { place, partition } => {
                self.drop_partition(&place, &partition, now)
            }
            EntryChange::CreateIndex { place, new } => self.create_index(&place, new, now),
            EntryChange::AlterIndex { place, index, set, remove } => {
                self.alter_index(&place, &index, set, &remove, now)
            }
            EntryChange::DropIndex { place, index } => self.drop_index(&place, &index, now),
            EntryChange::SetIndexState { collection, index, state } => {
                self.set_index_state(collection, index, state, now)
            }
            EntryChange::Load { place, partitions } => self.load(&place, partitions, now),
            EntryChange::Release { place, partitions } => self.release(&place, partitions, now),
        }
    }

    /// An id that nothing ever had.
    pub(super) fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// A database that was found before.
    pub(super) fn database_mut(&mut self, name: &str) -> &mut DatabaseEntry {
        Arc::make_mut(self.databases.get_mut(name).expect("the database was found"))
    }

    /// A collection that was found before.
    pub(super) fn collection_mut(&mut self, id: CollectionId) -> &mut CollectionEntry {
        Arc::make_mut(self.collections.get_mut(&id).expect("the collection was found"))
    }

    /// Edits a collection that was found before, and notes when, if `edit` changed it.
    pub(super) fn alter_collection(
        &mut self,
        id: CollectionId,
        now: UnixMs,
        edit: impl FnOnce(&mut CollectionEntry) -> Result<bool, CatalogError>,
    ) -> Result<Edit, CatalogError> {
        let collection = self.collection_mut(id);
        let changed = edit(collection)?;
        if changed {
            collection.updated = collection.updated.max(now);
        }
        Ok(Edit { changed, subject: Subject::Collection(id) })
    }

    /// The name is free in this database.
    pub(super) fn check_free(&self, database: &str, name: &str) -> Result<(), CatalogError> {
        let kind = match self.database(database)?.names.get(name) {
            None => return Ok(()),
            Some(NameTarget::Collection(_)) => EntityKind::Collection,
            Some(NameTarget::Alias(_)) => EntityKind::Alias,
        };
        Err(CatalogError::exists(kind, name, database))
    }

    fn create_database(
        &mut self,
        name: String,
        properties: Properties,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        check_name("database", &name)?;
        if self.databases.contains_key(&name) {
            return Err(CatalogError::exists(EntityKind::Database, &name, "the catalogue"));
        }
        check_limit(EntityKind::Database, self.databases.len(), MAX_DATABASES, "the catalogue")?;
        let id = DatabaseId(self.new_id());
        let database = DatabaseEntry { id, created: now, properties, names: SharedMap::default() };
        self.databases.insert(name, Arc::new(database));
        Ok(Edit::made(Subject::Database(id)))
    }

    fn drop_database(&mut self, name: &str) -> Result<Edit, CatalogError> {
        let database = self.database(name)?;
        if name == DEFAULT_DATABASE {
            return Err(CatalogError::Permanent { kind: EntityKind::Database, name: name.into() });
        }
        let is_collection = |target: &&NameTarget| matches!(target, NameTarget::Collection(_));
        let held = database.names.values().filter(is_collection).count();
        if held > 0 {
            let usage = Usage::Collections(held);
            return Err(CatalogError::InUse {
                kind: EntityKind::Database,
                name: name.into(),
                usage,
            });
        }
        let id = database.id;
        self.databases.remove(name);
        Ok(Edit::made(Subject::Database(id)))
    }

    fn create_alias(
        &mut self,
        place: &CollectionPath,
        alias: String,
    ) -> Result<Edit, CatalogError> {
        check_name("alias", &alias)?;
        let id = self.collection(&place.database, &place.collection)?.id;
        let subject = Subject::Collection(id);
        let names = &self.database(&place.database)?.names;
        if names.get(&alias) == Some(&NameTarget::Alias(id)) {
            return Ok(Edit::made_already(subject));
        }
        self.check_free(&place.database, &alias)?;
        let is_alias = |target: &&NameTarget| matches!(target, NameTarget::Alias(_));
        let count = names.values().filter(is_alias).count();
        check_limit(EntityKind::Alias, count, MAX_ALIASES, &place.database)?;
        self.database_mut(&place.database).names.insert(alias, NameTarget::Alias(id));
        Ok(Edit::made(subject))
    }

    fn alter_alias(&mut self, place: &CollectionPath, alias: &str) -> Result<Edit, CatalogError> {
        let before = self.alias(&place.database, alias)?.id;
        let id = self.collection(&place.database, &place.collection)?.id;
        let target = NameTarget::Alias(id);
        self.database_mut(&place.database).names.insert(alias.into(), target);
        Ok(Edit { changed: before != id, subject: Subject::Collection(id) })
    }
}

/// One more is possible.
pub(super) fn check_limit(
    kind: EntityKind,
    count: usize,
    most: usize,
    within: &str,
) -> Result<(), CatalogError> {
    if count < most {
        return Ok(());
    }
    Err(CatalogError::Limit { kind, most, within: within.into() })
}

/// Changes properties, and tells whether they are other ones now.
pub(super) fn alter(properties: &mut Properties, set: Properties, remove: &[String]) -> bool {
    let before = properties.clone();
    properties.extend(set);
    properties.retain(|key, _| !remove.contains(key));
    *properties != before
}
