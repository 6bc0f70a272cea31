//! What can be changed.

use super::entries::{
    CollectionId, ConsistencyLevel, DatabaseId, IndexId, IndexState, PartitionId, Properties,
};
use crate::ids::Metric;
use crate::schema::{FieldAlteration, FieldSpec, Schema};

/// A collection by the names that a user gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionPath {
    /// Name of the database.
    pub database: String,
    /// Name or alias of the collection.
    pub collection: String,
}

impl CollectionPath {
    /// The collection of this name, or alias, in this database.
    pub fn new(database: impl Into<String>, collection: impl Into<String>) -> Self {
        Self { database: database.into(), collection: collection.into() }
    }
}

/// A collection to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCollection {
    /// Its fields.
    pub schema: Schema,
    /// How fresh reads are by default.
    pub consistency: ConsistencyLevel,
    /// Kept for clients that ask; 1 to 16.
    pub shards: u32,
    /// Number of partitions, where there is a partition key; 16 unless given.
    pub partitions: Option<u32>,
    /// What the caller keeps with it.
    pub properties: Properties,
}

impl NewCollection {
    /// One shard, bounded reads, the usual number of partitions, no properties.
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            consistency: ConsistencyLevel::Bounded,
            shards: 1,
            partitions: None,
            properties: Properties::new(),
        }
    }
}

/// An index to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewIndex {
    /// Name of the field.
    pub field: String,
    /// Its name; that of the field unless given.
    pub name: Option<String>,
    /// One of the known index types.
    pub kind: String,
    /// How vectors are compared; none for scalars.
    pub metric: Option<Metric>,
    /// Parameters, kept as they are.
    pub parameters: Properties,
}

/// A change. Names are looked up when it is applied; an alias serves wherever a collection is
/// meant, except where its name itself changes or ends.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryChange {
    /// Creates a database.
    CreateDatabase {
        /// Its name.
        name: String,
        /// What the caller keeps with it.
        properties: Properties,
    },
    /// Drops an empty database.
    DropDatabase {
        /// Its name.
        name: String,
    },
    /// Changes the properties of a database.
    AlterDatabase {
        /// Its name.
        name: String,
        /// Properties to add or replace.
        set: Properties,
        /// Properties to take away; those that are not there are no error.
        remove: Vec<String>,
    },
    /// Creates a collection. One that exists and is the same in all that was given is fine.
    CreateCollection {
        /// Where.
        place: CollectionPath,
        /// What.
        new: Box<NewCollection>,
    },
    /// Drops a collection without aliases, loaded or not.
    DropCollection {
        /// Which, by its own name.
        place: CollectionPath,
    },
    /// Renames a collection, or moves it to another database. Aliases stay in their database,
    /// so a collection that has some can be renamed, and cannot be moved.
    RenameCollection {
        /// Which, by its own name.
        place: CollectionPath,
        /// Its new name, and its database.
        to: CollectionPath,
    },
    /// Changes what is said about a collection; `None` leaves it.
    AlterCollection {
        /// Which.
        place: CollectionPath,
        /// Properties to add or replace.
        set: Properties,
        /// Properties to take away; those that are not there are no error.
        remove: Vec<String>,
        /// Another description.
        description: Option<String>,
        /// Another consistency level.
        consistency: Option<ConsistencyLevel>,
    },
    /// Adds a field to a collection.
    AddField {
        /// Which.
        place: CollectionPath,
        /// The field; nullable or with a default.
        field: Box<FieldSpec>,
    },
    /// Alters limits or properties of a field.
    AlterField {
        /// Which collection.
        place: CollectionPath,
        /// Name of the field.
        field: String,
        /// What changes.
        alteration: FieldAlteration,
    },
    /// Adds a dynamic field to a collection. One that is there is fine.
    AddDynamicField {
        /// Which.
        place: CollectionPath,
    },
    /// Creates an alias. One that exists for the same collection is fine.
    CreateAlias {
        /// The collection.
        place: CollectionPath,
        /// The alias.
        alias: String,
    },
    /// Points an alias to another collection.
    AlterAlias {
        /// The collection.
        place: CollectionPath,
        /// The alias.
        alias: String,
    },
    /// Drops an alias.
    DropAlias {
        /// Name of the database.
        database: String,
        /// The alias.
        alias: String,
    },
    /// Creates a partition. One that exists is fine.
    CreatePartition {
        /// The collection.
        place: CollectionPath,
        /// Name of the partition.
        partition: String,
    },
    /// Drops a partition that is not loaded.
    DropPartition {
        /// The collection.
        place: CollectionPath,
        /// Name of the partition.
        partition: String,
    },
    /// Creates an index. One that exists and is the same in all that was given is fine.
    CreateIndex {
        /// The collection.
        place: CollectionPath,
        /// The index.
        new: NewIndex,
    },
    /// Changes the parameters of an index.
    AlterIndex {
        /// The collection.
        place: CollectionPath,
        /// Name of the index.
        index: String,
        /// Parameters to add or replace.
        set: Properties,
        /// Parameters to take away; those that are not there are no error.
        remove: Vec<String>,
    },
    /// Drops an index; one on a vector only while nothing is loaded.
    DropIndex {
        /// The collection.
        place: CollectionPath,
        /// Name of the index.
        index: String,
    },
    /// Notes how far an index is. By id, so that a build does not report to another index of
    /// the same name.
    SetIndexState {
        /// The collection.
        collection: CollectionId,
        /// The index.
        index: IndexId,
        /// How far it is.
        state: IndexState,
    },
    /// Makes partitions searchable.
    Load {
        /// The collection.
        place: CollectionPath,
        /// Names of partitions; all, also later ones, unless given.
        partitions: Option<Vec<String>>,
    },
    /// Makes partitions unsearchable.
    Release {
        /// The collection.
        place: CollectionPath,
        /// Names of partitions; all unless given.
        partitions: Option<Vec<String>>,
    },
}

/// What a change was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A database.
    Database(DatabaseId),
    /// A collection, itself or an alias of it.
    Collection(CollectionId),
    /// A partition.
    Partition(CollectionId, PartitionId),
    /// An index.
    Index(CollectionId, IndexId),
}

/// A change that was made and saved, or found to be made already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Whether anything changed.
    pub changed: bool,
    /// Number of the state that includes it.
    pub revision: u64,
    /// What was created, changed or dropped.
    pub subject: Subject,
}
