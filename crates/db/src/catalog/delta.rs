//! What one change makes otherwise: what stands behind the catalogue in its file.
//!
//! It holds the entries that are there afterwards, and the names of those that are gone. So it is
//! as long as what it changes, whatever else there is, and reading it asks for none of the rules by
//! which the change was made.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::entries::{
    CollectionEntry, CollectionId, DatabaseEntry, DatabaseId, NameTarget, Properties, UnixMs,
};
use super::shared_map::SharedMap;
use super::snapshot::Snapshot;

/// A database without its names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    id: DatabaseId,
    created: UnixMs,
    properties: Properties,
}

impl Head {
    fn of(database: &DatabaseEntry) -> Self {
        let DatabaseEntry { id, created, properties, names: _ } = database;
        Self { id: *id, created: *created, properties: properties.clone() }
    }
}

type NameDelta = BTreeMap<String, Option<NameTarget>>;

/// See the module's description. `None` stands for what is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delta {
    revision: u64,
    next_id: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    databases: BTreeMap<String, Option<Head>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    names: BTreeMap<String, NameDelta>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    collections: BTreeMap<CollectionId, Option<Arc<CollectionEntry>>>,
}

impl Delta {
    /// What leads from one state to the other.
    pub(super) fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let gone = before.databases.keys().filter(|name| !after.databases.contains_key(*name));
        let mut databases: BTreeMap<_, _> = gone.map(|name| (name.clone(), None)).collect();
        let mut names = BTreeMap::new();
        let none = SharedMap::default();
        for (name, database) in &after.databases {
            let was = before.databases.get(name).filter(|was| was.id == database.id);
            if was.is_some_and(|was| Arc::ptr_eq(was, database)) {
                continue;
            }
            let head = Head::of(database);
            if was.is_none_or(|was| Head::of(was) != head) {
                databases.insert(name.clone(), Some(head));
            }
            let changes =
                database.names.changes(was.map_or(&none, |was| &was.names), |a, b| a == b);
            if !changes.is_empty() {
                let changes =
                    changes.into_iter().map(|(name, target)| (name.clone(), target.copied()));
                names.insert(name.clone(), changes.collect());
            }
        }
        let collections = after.collections.changes(&before.collections, Arc::ptr_eq);
        let collections = collections.into_iter().map(|(id, entry)| (*id, entry.cloned()));
        Self {
            revision: after.revision,
            next_id: after.next_id,
            databases,
            names,
            collections: collections.collect(),
        }
    }

    /// The change as JSON.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("maps with text keys, and finite numbers")
    }

    /// The change that stands in JSON.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// Makes the change. What it leads to is still to be checked as a whole.
    ///
    /// # Errors
    /// What in it does not fit what is there.
    pub(super) fn apply(self, to: &mut Snapshot) -> Result<(), String> {
        if self.revision != to.revision + 1 {
            return Err(format!("it makes revision {} of {}", self.revision, to.revision));
        }
        if self.next_id < to.next_id {
            return Err(format!("its next id is {}, behind {}", self.next_id, to.next_id));
        }
        (to.revision, to.next_id) = (self.revision, self.next_id);
        for (name, head) in self.databases {
            let was = to.databases.remove(&name);
            let Some(Head { id, created, properties }) = head else {
                let missing = || format!("there is no database `{name}` to go");
                was.ok_or_else(missing)?;
                continue;
            };
            let kept = was.filter(|was| was.id == id).map(|was| was.names.clone());
            let names = kept.unwrap_or_default();
            to.databases.insert(name, Arc::new(DatabaseEntry { id, created, properties, names }));
        }
        for (database, names) in self.names {
            let missing = || format!("there is no database `{database}` for its names");
            let database = Arc::make_mut(to.databases.get_mut(&database).ok_or_else(missing)?);
            for (name, target) in names {
                match target {
                    Some(target) => drop(database.names.insert(name, target)),
                    None => drop(database.names.remove(&name)),
                }
            }
        }
        for (id, entry) in self.collections {
            match entry {
                Some(entry) => drop(to.collections.insert(id, entry)),
                None => drop(to.collections.remove(&id)),
            }
        }
        Ok(())
    }
}
