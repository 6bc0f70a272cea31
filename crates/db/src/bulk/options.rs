//! How a load is made.

use crate::catalog::limits::DEFAULT_PARTITION;
use crate::collection::{Collection, CollectionError};

/// How a load is made.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Name of the load, by which it is continued.
    pub name: String,
    /// The partition; the default one, or where the partition key says, unless given.
    pub partition: Option<String>,
    /// Bytes of log that a batch should take, at most 48 MiB. One whose rows have become larger may
    /// take some more, a single large row as many as it has. A batch is in memory about five times
    /// while it is written.
    pub batch_bytes: u64,
    /// Whether to build the indexes that are declared, when all rows are there, and wait for them.
    pub build_indexes: bool,
}

impl LoadOptions {
    /// A load of this name, into the default partition, by batches of 8 MiB, with its indexes.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), partition: None, batch_bytes: 8 << 20, build_indexes: true }
    }

    /// A load of a source, by its [identity](super::BatchSource::identity), into a partition: the
    /// name is of both, so that what is loaded into one partition can be loaded into another.
    ///
    /// # Errors
    /// [`CollectionError::Dropped`]; [`CollectionError::Catalog`] where there is no such partition.
    pub fn of_source(
        collection: &Collection,
        source: u128,
        partition: Option<String>,
    ) -> Result<Self, CollectionError> {
        let mut name = format!("{source:032x}");
        if let Some(other) = partition.as_deref().filter(|&name| name != DEFAULT_PARTITION) {
            // A partition that is made anew has another number.
            name.push_str(&format!("-{}", collection.entry()?.partition(other)?.id.0));
        }
        Ok(Self { partition, ..Self::new(name) })
    }
}
