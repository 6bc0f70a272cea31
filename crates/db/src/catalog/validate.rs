//! What holds of every catalogue: checked when one is read, and after every edit in debug builds.
//!
//! Invariants: the default database is there; names are names; a name stands for a collection
//! that exists, an alias for one of the same database; every collection has exactly one name,
//! its own; ids are below the counter and used once; partitions and indexes are what the
//! schema allows; what is loaded exists. Schemas check themselves when they are read.

use std::collections::BTreeSet;

use super::entries::{
    CollectionEntry, DatabaseEntry, NameTarget, WantedLoad, keyed_partition_name,
};
use super::index_kind;
use super::limits::{
    DEFAULT_DATABASE, DEFAULT_PARTITION, MAX_ALIASES, MAX_COLLECTIONS, MAX_DATABASES,
    MAX_PARTITIONS, MAX_SHARDS,
};
use super::snapshot::Snapshot;
use crate::schema::{check_name, check_partition_name};

/// `Err` says what is wrong.
pub(super) fn validate(snapshot: &Snapshot) -> Result<(), String> {
    require(snapshot.databases.contains_key(DEFAULT_DATABASE), || "no default database".into())?;
    require(snapshot.databases.len() <= MAX_DATABASES, || "too many databases".into())?;
    require(snapshot.collections.len() <= MAX_COLLECTIONS, || "too many collections".into())?;
    let mut ids = Ids { below: snapshot.next_id, seen: BTreeSet::new() };
    let mut named = 0;
    for (name, database) in &snapshot.databases {
        check_name("database", name).map_err(|error| error.to_string())?;
        ids.take("database", name, database.id.0)?;
        named += validate_names(snapshot, name, database)?;
    }
    require(named == snapshot.collections.len(), || "a collection has no name".into())?;
    for (id, collection) in snapshot.collections.iter() {
        let within = |fault| format!("collection `{}`: {fault}", collection.name);
        require(collection.id == *id, || within("its id is not its key".into()))?;
        ids.take("collection", &collection.name, id.0)?;
        validate_collection(collection, &mut ids).map_err(within)?;
    }
    Ok(())
}

/// The names of a database; the number of those that are collections.
fn validate_names(
    snapshot: &Snapshot,
    name: &str,
    database: &DatabaseEntry,
) -> Result<usize, String> {
    let mut collections = 0;
    let mut aliases = 0;
    for (key, target) in database.names.iter() {
        check_name("collection", key).map_err(|error| error.to_string())?;
        let fault = |what: &str| format!("`{key}` in database `{name}` {what}");
        let collection = snapshot.collections.get(&target.collection());
        let collection = collection.ok_or_else(|| fault("stands for no collection"))?;
        let at_home = collection.database == database.id;
        require(at_home, || fault("stands for a collection of another database"))?;
        match target {
            NameTarget::Collection(_) => {
                require(collection.name == *key, || fault("is not the collection's name"))?;
                collections += 1;
            }
            NameTarget::Alias(_) => aliases += 1,
        }
    }
    require(aliases <= MAX_ALIASES, || format!("database `{name}` has too many aliases"))?;
    Ok(collections)
}

fn validate_collection(collection: &CollectionEntry, ids: &mut Ids) -> Result<(), String> {
    let shards = collection.shards;
    require((1..=MAX_SHARDS).contains(&shards), || format!("{shards} shards"))?;
    let partitions = &collection.partitions;
    let count = partitions.len();
    require((1..=MAX_PARTITIONS as usize).contains(&count), || format!("{count} partitions"))?;
    for (number, partition) in partitions.iter().enumerate() {
        let name = &partition.name;
        check_partition_name(name).map_err(|error| error.to_string())?;
        ids.take("partition", name, partition.id.0)?;
        let unique = partitions[..number].iter().all(|before| before.name != *name);
        require(unique, || format!("two partitions `{name}`"))?;
        let keyed = !collection.has_partition_key() || *name == keyed_partition_name(number);
        require(keyed, || format!("partition {number} is named `{name}`"))?;
    }
    let plain = collection.has_partition_key() || partitions[0].name == DEFAULT_PARTITION;
    require(plain, || format!("its first partition is not `{DEFAULT_PARTITION}`"))?;
    for (at, index) in collection.indexes.iter().enumerate() {
        let name = &index.name;
        ids.take("index", name, index.id.0)?;
        let unique = collection.indexes[..at].iter().all(|before| before.name != *name);
        require(unique, || format!("two indexes `{name}`"))?;
        let field = collection.schema.field_by_id(index.field);
        let field = field.ok_or_else(|| format!("index `{name}` is on no field"))?;
        index_kind::check(field, &index.kind, index.metric)
            .map_err(|fault| format!("index `{name}`: {fault}"))?;
    }
    if let WantedLoad::Partitions(loaded) = &collection.load {
        let exist = loaded.iter().all(|id| partitions.iter().any(|partition| partition.id == *id));
        require(exist && !loaded.is_empty(), || "partitions are loaded that do not exist".into())?;
    }
    Ok(())
}

/// Ids that were seen.
struct Ids {
    below: u64,
    seen: BTreeSet<u64>,
}

impl Ids {
    fn take(&mut self, kind: &str, name: &str, id: u64) -> Result<(), String> {
        require(id < self.below, || format!("{kind} `{name}` has the id {id}, not given out yet"))?;
        require(self.seen.insert(id), || format!("{kind} `{name}` shares the id {id}"))
    }
}

fn require(holds: bool, fault: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault()) }
}
