//! Changes of a draft: collections and their fields.

use std::sync::Arc;

use super::apply::Edit;
use super::change::{CollectionPath, NewCollection, Subject};
use super::edit_names::check_limit;
use super::entries::{
    CollectionEntry, CollectionId, CollectionPartition, NOTED, NameTarget, PartitionId, Properties,
    UnixMs, WantedLoad, keyed_partition_name,
};
use super::error::{CatalogError, EntityKind, Usage};
use super::limits::{
    DEFAULT_KEY_PARTITIONS, DEFAULT_PARTITION, MAX_COLLECTIONS, MAX_PARTITIONS, MAX_SHARDS,
};
use super::snapshot::Snapshot;
use crate::schema::{FieldAlteration, FieldSpec, check_name};

impl Snapshot {
    pub(super) fn create_collection(
        &mut self,
        place: CollectionPath,
        new: NewCollection,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let CollectionPath { database, collection: name } = place;
        check_name("collection", &name)?;
        let partition_names = partition_names(&name, &new)?;
        if !(1..=MAX_SHARDS).contains(&new.shards) {
            return Err(CatalogError::Shards { found: new.shards });
        }
        if let Some(NameTarget::Collection(id)) = self.database(&database)?.names.get(&name) {
            let there = &self.collections[id];
            let same = *there.schema == new.schema
                && there.consistency == new.consistency
                && there.shards == new.shards
                && are_asked_for(&there.properties, &new.properties)
                && (!there.has_partition_key() || there.partitions.len() == partition_names.len());
            return if same {
                Ok(Edit::made_already(Subject::Collection(*id)))
            } else {
                Err(CatalogError::Differs { name })
            };
        }
        self.check_free(&database, &name)?;
        let count = self.collections.len();
        check_limit(EntityKind::Collection, count, MAX_COLLECTIONS, "the catalogue")?;
        let id = CollectionId(self.new_id());
        let partitions = partition_names.into_iter().map(|name| CollectionPartition {
            id: PartitionId(self.new_id()),
            name,
            created: now,
        });
        let partitions = partitions.collect();
        let collection = CollectionEntry {
            id,
            name: name.clone(),
            database: self.database(&database)?.id,
            schema: Arc::new(new.schema),
            created: now,
            updated: now,
            consistency: new.consistency,
            shards: new.shards,
            properties: new.properties,
            partitions,
            indexes: Vec::new(),
            load: WantedLoad::Released,
        };
        self.collections.insert(id, Arc::new(collection));
        self.database_mut(&database).names.insert(name, NameTarget::Collection(id));
        Ok(Edit::made(Subject::Collection(id)))
    }

    pub(super) fn drop_collection(&mut self, place: &CollectionPath) -> Result<Edit, CatalogError> {
        let collection = Arc::clone(self.by_own_name(place, "drop")?);
        self.check_no_aliases(&collection)?;
        self.collections.remove(&collection.id);
        self.database_mut(&place.database).names.remove(&collection.name);
        Ok(Edit::made(Subject::Collection(collection.id)))
    }

    pub(super) fn rename_collection(
        &mut self,
        place: &CollectionPath,
        to: CollectionPath,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        check_name("collection", &to.collection)?;
        let collection = Arc::clone(self.by_own_name(place, "rename")?);
        let subject = Subject::Collection(collection.id);
        if *place == to {
            return Ok(Edit::made_already(subject));
        }
        self.check_free(&to.database, &to.collection)?;
        if place.database != to.database {
            self.check_no_aliases(&collection)?;
        }
        let database = self.database(&to.database)?.id;
        let target = NameTarget::Collection(collection.id);
        self.database_mut(&place.database).names.remove(&place.collection);
        self.database_mut(&to.database).names.insert(to.collection.clone(), target);
        self.alter_collection(collection.id, now, |collection| {
            collection.name = to.collection;
            collection.database = database;
            Ok(true)
        })
    }

    pub(super) fn add_field(
        &mut self,
        place: &CollectionPath,
        field: FieldSpec,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let id = self.collection(&place.database, &place.collection)?.id;
        self.alter_collection(id, now, |collection| {
            collection.schema = Arc::new(collection.schema.with_field(field)?);
            Ok(true)
        })
    }

    pub(super) fn alter_field(
        &mut self,
        place: &CollectionPath,
        field: &str,
        alteration: &FieldAlteration,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let id = self.collection(&place.database, &place.collection)?.id;
        self.alter_collection(id, now, |collection| {
            let altered = collection.schema.with_altered_field(field, alteration)?;
            let changed = altered.version() != collection.schema.version();
            collection.schema = Arc::new(altered);
            Ok(changed)
        })
    }

    pub(super) fn add_dynamic_field(
        &mut self,
        place: &CollectionPath,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let id = self.collection(&place.database, &place.collection)?.id;
        self.alter_collection(id, now, |collection| {
            if collection.schema.dynamic_position().is_some() {
                return Ok(false);
            }
            collection.schema = Arc::new(collection.schema.with_dynamic_field()?);
            Ok(true)
        })
    }

    /// The collection of this name, which is not an alias.
    fn by_own_name(
        &self,
        place: &CollectionPath,
        action: &'static str,
    ) -> Result<&Arc<CollectionEntry>, CatalogError> {
        let collection = self.collection(&place.database, &place.collection)?;
        if collection.name == place.collection {
            return Ok(collection);
        }
        let alias = place.collection.clone();
        Err(CatalogError::ViaAlias { action, alias, collection: collection.name.clone() })
    }

    fn check_no_aliases(&self, collection: &CollectionEntry) -> Result<(), CatalogError> {
        let aliases: Vec<String> =
            self.aliases_of(collection).into_iter().map(str::to_owned).collect();
        if aliases.is_empty() {
            return Ok(());
        }
        let (kind, name) = (EntityKind::Collection, collection.name.clone());
        Err(CatalogError::InUse { kind, name, usage: Usage::Aliases(aliases) })
    }
}

/// Whether properties are those that are asked for. What a door has noted since then nobody asks for.
fn are_asked_for(there: &Properties, asked: &Properties) -> bool {
    let noted = |key: &str| key.starts_with(NOTED) && !asked.contains_key(key);
    there.iter().filter(|(key, _)| !noted(key)).eq(asked)
}

/// The partitions that a collection begins with.
fn partition_names(name: &str, new: &NewCollection) -> Result<Vec<String>, CatalogError> {
    if new.schema.partition_key_position().is_none() {
        return match new.partitions {
            None => Ok(vec![DEFAULT_PARTITION.into()]),
            Some(_) => Err(CatalogError::NoPartitionKey { collection: name.into() }),
        };
    }
    let count = new.partitions.unwrap_or(DEFAULT_KEY_PARTITIONS);
    if !(1..=MAX_PARTITIONS).contains(&count) {
        return Err(CatalogError::Partitions { found: count });
    }
    Ok((0..count).map(|number| keyed_partition_name(number as usize)).collect())
}
