//! Changes of a draft: what is inside a collection: partitions, indexes, what is loaded.

use std::collections::BTreeSet;

use super::apply::Edit;
use super::change::{CollectionPath, NewIndex, Subject};
use super::edit_names::{alter, check_limit};
use super::entries::{
    CollectionEntry, CollectionId, CollectionPartition, IndexDefinition, IndexId, IndexState,
    PartitionId, Properties, UnixMs, WantedLoad,
};
use super::error::{CatalogError, EntityKind, IndexFault, Usage};
use super::index_kind;
use super::limits::{DEFAULT_PARTITION, MAX_PARTITIONS};
use super::snapshot::Snapshot;
use crate::schema::{Field, check_name, check_partition_name};
use crate::value::DataType;

/// The parameter that tells indexes on one JSON field apart.
const JSON_PATH: &str = "json_path";

impl Snapshot {
    pub(super) fn create_partition(
        &mut self,
        place: &CollectionPath,
        name: String,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        check_partition_name(&name)?;
        let collection = self.without_partition_key(place)?;
        let id = collection.id;
        if let Ok(there) = collection.partition(&name) {
            return Ok(Edit::made_already(Subject::Partition(id, there.id)));
        }
        let count = collection.partitions.len();
        check_limit(EntityKind::Partition, count, MAX_PARTITIONS as usize, &collection.name)?;
        let partition = PartitionId(self.new_id());
        self.alter_collection(id, now, |collection| {
            collection.partitions.push(CollectionPartition { id: partition, name, created: now });
            Ok(true)
        })?;
        Ok(Edit::made(Subject::Partition(id, partition)))
    }

    pub(super) fn drop_partition(
        &mut self,
        place: &CollectionPath,
        name: &str,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let collection = self.without_partition_key(place)?;
        let (id, partition) = (collection.id, collection.partition(name)?.id);
        let (kind, name) = (EntityKind::Partition, name.to_owned());
        if name == DEFAULT_PARTITION {
            return Err(CatalogError::Permanent { kind, name });
        }
        if collection.load.includes(partition) {
            return Err(CatalogError::InUse { kind, name, usage: Usage::Loaded });
        }
        self.alter_collection(id, now, |collection| {
            collection.partitions.retain(|each| each.id != partition);
            Ok(true)
        })?;
        Ok(Edit::made(Subject::Partition(id, partition)))
    }

    pub(super) fn create_index(
        &mut self,
        place: &CollectionPath,
        new: NewIndex,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let collection = self.collection(&place.database, &place.collection)?;
        let id = collection.id;
        let field = collection.schema.field(&new.field);
        let field = field.ok_or_else(|| {
            CatalogError::not_found(EntityKind::Field, &new.field, &collection.name)
        })?;
        let fault = |fault| CatalogError::Index { field: new.field.clone(), fault };
        index_kind::check(field, &new.kind, new.metric).map_err(fault)?;
        if let Some(there) = rival(collection, field, &new.parameters) {
            let same = there.kind == new.kind
                && there.metric == new.metric
                && there.parameters == new.parameters
                && new.name.as_ref().is_none_or(|name| *name == there.name);
            return if same {
                Ok(Edit::made_already(Subject::Index(id, there.id)))
            } else {
                Err(fault(IndexFault::Second(there.name.clone())))
            };
        }
        let field = field.id;
        let name = match new.name {
            Some(name) => {
                check_name("index", &name)?;
                name
            }
            // Of the field's name nothing is asked: the dynamic field can have an index too.
            None => match new.parameters.get(JSON_PATH) {
                Some(path) => name_of_path(&new.field, path),
                None => new.field,
            },
        };
        if collection.index(&name).is_ok() {
            return Err(CatalogError::exists(EntityKind::Index, &name, &collection.name));
        }
        let index = IndexId(self.new_id());
        self.alter_collection(id, now, |collection| {
            collection.indexes.push(IndexDefinition {
                id: index,
                name,
                field,
                kind: new.kind,
                metric: new.metric,
                parameters: new.parameters,
                created: now,
                state: IndexState::NotBuilt,
            });
            Ok(true)
        })?;
        Ok(Edit::made(Subject::Index(id, index)))
    }

    pub(super) fn alter_index(
        &mut self,
        place: &CollectionPath,
        name: &str,
        set: Properties,
        remove: &[String],
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let collection = self.collection(&place.database, &place.collection)?;
        let (id, index) = (collection.id, collection.index(name)?.id);
        let field = collection.schema.field_by_id(collection.index(name)?.field);
        let field = field.map_or_else(String::new, |field| field.spec.name.clone());
        let edit = self.alter_collection(id, now, |collection| {
            let index = index_mut(collection, index);
            let path = index.parameters.get(JSON_PATH).cloned();
            let changed = alter(&mut index.parameters, set, remove);
            if index.parameters.get(JSON_PATH) != path.as_ref() {
                let fault = IndexFault::Path(index.name.clone());
                return Err(CatalogError::Index { field, fault });
            }
            Ok(changed)
        })?;
        Ok(Edit { changed: edit.changed, subject: Subject::Index(id, index) })
    }

    pub(super) fn drop_index(
        &mut self,
        place: &CollectionPath,
        name: &str,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let collection = self.collection(&place.database, &place.collection)?;
        let (id, index) = (collection.id, collection.index(name)?);
        let field = collection.schema.field_by_id(index.field);
        let on_vector = field.is_some_and(|field| field.spec.data_type.vector_kind().is_some());
        if on_vector && collection.load != WantedLoad::Released {
            let (kind, name) = (EntityKind::Index, name.to_owned());
            return Err(CatalogError::InUse { kind, name, usage: Usage::Loaded });
        }
        let index = index.id;
        self.alter_collection(id, now, |collection| {
            collection.indexes.retain(|each| each.id != index);
            Ok(true)
        })?;
        Ok(Edit::made(Subject::Index(id, index)))
    }

    pub(super) fn set_index_state(
        &mut self,
        id: CollectionId,
        index: IndexId,
        state: IndexState,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let missing = |kind, number: u64| {
            CatalogError::not_found(kind, &format!("id {number}"), "the catalogue")
        };
        let collection =
            self.collection_by_id(id).ok_or_else(|| missing(EntityKind::Collection, id.0))?;
        let there = collection.indexes.iter().find(|each| each.id == index);
        let there = there.ok_or_else(|| missing(EntityKind::Index, index.0))?;
        if let IndexState::Building { rows_done, rows } = state
            && rows_done > rows
        {
            let fault = IndexFault::Progress { rows_done, rows };
            return Err(CatalogError::Index { field: there.name.clone(), fault });
        }
        let edit = self.alter_collection(id, now, |collection| {
            let index = index_mut(collection, index);
            let changed = index.state != state;
            index.state = state;
            Ok(changed)
        })?;
        Ok(Edit { changed: edit.changed, subject: Subject::Index(id, index) })
    }

    pub(super) fn load(
        &mut self,
        place: &CollectionPath,
        partitions: Option<Vec<String>>,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let collection = self.collection(&place.database, &place.collection)?;
        let id = collection.id;
        let load = match (named(collection, partitions)?, &collection.load) {
            (None, _) | (_, WantedLoad::Whole) => WantedLoad::Whole,
            (Some(more), WantedLoad::Released) => of(more),
            (Some(more), WantedLoad::Partitions(loaded)) => of(&more | loaded),
        };
        self.set_load(id, load, now)
    }

    pub(super) fn release(
        &mut self,
        place: &CollectionPath,
        partitions: Option<Vec<String>>,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        let collection = self.collection(&place.database, &place.collection)?;
        let id = collection.id;
        let all = || collection.partitions.iter().map(|partition| partition.id).collect();
        let load = match (named(collection, partitions)?, &collection.load) {
            (None, _) | (_, WantedLoad::Released) => WantedLoad::Released,
            (Some(none), WantedLoad::Whole) if none.is_empty() => WantedLoad::Whole,
            (Some(less), WantedLoad::Whole) => of(&all() - &less),
            (Some(less), WantedLoad::Partitions(loaded)) => of(loaded - &less),
        };
        self.set_load(id, load, now)
    }

    fn set_load(
        &mut self,
        id: CollectionId,
        load: WantedLoad,
        now: UnixMs,
    ) -> Result<Edit, CatalogError> {
        self.alter_collection(id, now, |collection| {
            let changed = collection.load != load;
            collection.load = load;
            Ok(changed)
        })
    }

    fn without_partition_key(
        &self,
        place: &CollectionPath,
    ) -> Result<&CollectionEntry, CatalogError> {
        let collection = self.collection(&place.database, &place.collection)?;
        if collection.has_partition_key() {
            let collection = collection.name.clone();
            return Err(CatalogError::PartitionKeyed { collection });
        }
        Ok(collection)
    }
}

/// What an index on a path in a JSON field is called: `field/key/key`, of `field["key"]["key"]` or, in
/// the dynamic field, of `key["key"]`. So several can stand on one field.
fn name_of_path(field: &str, path: &str) -> String {
    let steps = path.split(['[', ']']).map(|step| step.trim().trim_matches(['\'', '"']));
    let steps = steps.filter(|step| !step.is_empty());
    let within = steps.enumerate().filter(|(at, step)| *at > 0 || *step != field);
    within.fold(field.to_owned(), |name, (_, step)| name + "/" + step)
}

/// The index that stands where one with these parameters would.
fn rival<'c>(
    collection: &'c CollectionEntry,
    field: &Field,
    parameters: &Properties,
) -> Option<&'c IndexDefinition> {
    let by_path = field.spec.data_type == DataType::Json;
    collection
        .indexes_of(field.id)
        .find(|index| !by_path || index.parameters.get(JSON_PATH) == parameters.get(JSON_PATH))
}

/// An index that was found before.
fn index_mut(collection: &mut CollectionEntry, id: IndexId) -> &mut IndexDefinition {
    collection.indexes.iter_mut().find(|index| index.id == id).expect("the index was found")
}

/// The partitions of these names.
fn named(
    collection: &CollectionEntry,
    names: Option<Vec<String>>,
) -> Result<Option<BTreeSet<PartitionId>>, CatalogError> {
    let id = |name: &String| collection.partition(name).map(|partition| partition.id);
    names.map(|names| names.iter().map(id).collect()).transpose()
}

fn of(partitions: BTreeSet<PartitionId>) -> WantedLoad {
    if partitions.is_empty() { WantedLoad::Released } else { WantedLoad::Partitions(partitions) }
}
