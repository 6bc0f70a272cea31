//! What the catalogue holds of a database and a collection.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::{CatalogError, EntityKind};
use super::limits::DEFAULT_PARTITION;
use super::shared_map::SharedMap;
use crate::ids::Metric;
use crate::schema::{FieldId, Schema};

macro_rules! id {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);
    };
}

id! {
    /// A database; never used for anything else again.
    DatabaseId
}
id! {
    /// A collection; never used for anything else again. It survives renaming.
    CollectionId
}
id! {
    /// A partition; never used for anything else again.
    PartitionId
}
id! {
    /// An index; never used for anything else again, also not for the same index created anew.
    IndexId
}
id! {
    /// Milliseconds since 1970-01-01T00:00:00 UTC, by the caller's clock.
    UnixMs
}

/// What the caller wants to be kept; the catalogue reads [`TIME_TO_LIVE`] only.
pub type Properties = BTreeMap<String, String>;

/// The property of a collection that says how many seconds rows live; forever where it is missing
/// or not positive.
pub const TIME_TO_LIVE: &str = "collection.ttl.seconds";

/// Begins the names of properties that doors note of a collection, and tell to nobody.
pub const NOTED: &str = "pipeann.";

/// A database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseEntry {
    /// Its id.
    pub id: DatabaseId,
    /// When it was created.
    pub created: UnixMs,
    /// What the caller keeps with it.
    pub properties: Properties,
    /// Its collections and aliases.
    pub names: SharedMap<String, NameTarget>,
}

/// What a name in a database stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NameTarget {
    /// The collection of this name.
    Collection(CollectionId),
    /// Another name of this collection.
    Alias(CollectionId),
}

impl NameTarget {
    /// The collection that is meant.
    pub fn collection(self) -> CollectionId {
        match self {
            Self::Collection(id) | Self::Alias(id) => id,
        }
    }
}

/// How fresh a read has to be, where it does not say so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsistencyLevel {
    /// Sees all that was acknowledged.
    Strong,
    /// Sees what the same client wrote.
    Session,
    /// May be a little late.
    Bounded,
    /// May be late.
    Eventually,
    /// As each request says.
    Customized,
}

/// A collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectionEntry {
    /// Its id.
    pub id: CollectionId,
    /// Its name, not an alias.
    pub name: String,
    /// The database it is in.
    pub database: DatabaseId,
    /// Its fields.
    pub schema: Arc<Schema>,
    /// When it was created.
    pub created: UnixMs,
    /// When any of this changed; never earlier than before, whatever the clock did.
    pub updated: UnixMs,
    /// How fresh reads are by default.
    pub consistency: ConsistencyLevel,
    /// Kept for clients that ask.
    pub shards: u32,
    /// What the caller keeps with it.
    pub properties: Properties,
    /// By age; where there is a partition key, a partition's place is its number.
    pub partitions: Vec<CollectionPartition>,
    /// By age.
    pub indexes: Vec<IndexDefinition>,
    /// What is to be searchable.
    pub load: WantedLoad,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectionPartition {
    /// Its id.
    pub id: PartitionId,
    /// Its name, unique in the collection.
    pub name: String,
    /// When it was created.
    pub created: UnixMs,
}

/// What the user asked to be searchable. How far loading got is for whoever loads to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WantedLoad {
    /// Nothing.
    Released,
    /// All partitions, later ones too.
    Whole,
    /// These partitions; at least one.
    Partitions(BTreeSet<PartitionId>),
}

impl WantedLoad {
    /// Whether a partition is to be searchable.
    pub fn includes(&self, partition: PartitionId) -> bool {
        match self {
            Self::Released => false,
            Self::Whole => true,
            Self::Partitions(loaded) => loaded.contains(&partition),
        }
    }
}

/// An index on a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexDefinition {
    /// Its id.
    pub id: IndexId,
    /// Its name, unique in the collection.
    pub name: String,
    /// The field.
    pub field: FieldId,
    /// One of [`VECTOR_INDEX_KINDS`](super::VECTOR_INDEX_KINDS) or
    /// [`SCALAR_INDEX_KINDS`](super::SCALAR_INDEX_KINDS).
    pub kind: String,
    /// How vectors are compared; none for scalars.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "metric_to_name",
        deserialize_with = "metric_from_name"
    )]
    pub metric: Option<Metric>,
    /// Parameters as they were given.
    pub parameters: Properties,
    /// When it was created.
    pub created: UnixMs,
    /// How far it is.
    pub state: IndexState,
}

#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn metric_to_name<S: Serializer>(metric: &Option<Metric>, out: S) -> Result<S::Ok, S::Error> {
    metric.map(Metric::name).serialize(out)
}

fn metric_from_name<'de, D: Deserializer<'de>>(parser: D) -> Result<Option<Metric>, D::Error> {
    let name = Option::<String>::deserialize(parser)?;
    name.map(|name| Metric::from_str(&name).map_err(serde::de::Error::custom)).transpose()
}

/// How far an index is. Written at its beginning and end and seldom in between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum IndexState {
    /// Defined; its build did not begin.
    NotBuilt,
    /// Being built. Found after a restart, the build was interrupted.
    Building {
        /// Rows in the index so far.
        rows_done: u64,
        /// Rows there are.
        rows: u64,
    },
    /// Built; later rows join it as they come.
    Finished {
        /// Rows that the build took.
        rows: u64,
    },
    /// Its build failed.
    Failed {
        /// What went wrong.
        reason: String,
    },
}

/// Where the rows of a write go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteTarget<'c> {
    /// All into this partition.
    One(&'c CollectionPartition),
    /// Each into the one with the number of its partition key.
    ByKey(&'c [CollectionPartition]),
}

impl CollectionEntry {
    /// How long its rows live, in milliseconds; `None` for ever.
    pub fn time_to_live_ms(&self) -> Option<u64> {
        let seconds = self.properties.get(TIME_TO_LIVE)?.trim().parse::<i64>().ok()?;
        u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?.checked_mul(1000)
    }

    /// Whether rows are spread over partitions by a key.
    pub fn has_partition_key(&self) -> bool {
        self.schema.partition_key_position().is_some()
    }

    /// The partition of this name.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] where there is none.
    pub fn partition(&self, name: &str) -> Result<&CollectionPartition, CatalogError> {
        let found = self.partitions.iter().find(|partition| partition.name == name);
        found.ok_or_else(|| CatalogError::not_found(EntityKind::Partition, name, &self.name))
    }

    /// Where rows go that are written to the named partition, or without naming one.
    ///
    /// # Errors
    /// [`CatalogError::PartitionKeyed`] where one is named and the partition key decides;
    /// [`CatalogError::NotFound`] where there is no such partition.
    pub fn write_target(&self, partition: Option<&str>) -> Result<WriteTarget<'_>, CatalogError> {
        match partition {
            Some(_) if self.has_partition_key() => {
                Err(CatalogError::PartitionKeyed { collection: self.name.clone() })
            }
            None if self.has_partition_key() => Ok(WriteTarget::ByKey(&self.partitions)),
            name => self.partition(name.unwrap_or(DEFAULT_PARTITION)).map(WriteTarget::One),
        }
    }

    /// The index of this name.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] where there is none.
    pub fn index(&self, name: &str) -> Result<&IndexDefinition, CatalogError> {
        let found = self.indexes.iter().find(|index| index.name == name);
        found.ok_or_else(|| CatalogError::not_found(EntityKind::Index, name, &self.name))
    }

    /// The indexes on a field: one at most, but for JSON fields, which have one per path.
    pub fn indexes_of(&self, field: FieldId) -> impl Iterator<Item = &IndexDefinition> {
        self.indexes.iter().filter(move |index| index.field == field)
    }
}

/// The name of a partition that a partition key chooses.
pub(super) fn keyed_partition_name(number: usize) -> String {
    format!("{DEFAULT_PARTITION}_{number}")
}
