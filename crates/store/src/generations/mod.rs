//! Generations of a shard: files under the names of their contents, and a manifest that lists them.
//!
//! A manifest is put where there is none, under the leader's term. It becomes current by a record in the
//! shard's log, which is the caller's; here it is only there.
//!
//! Files are shared, so collecting those that nobody wants meets those who are about to want them. No
//! clock decides between them:
//! - A collector puts a *doom*, the names that it may delete, before it reads pins and manifests; it
//!   deletes what neither has, and takes the doom away when it is done.
//! - Who wants a name puts a *pin* or a manifest with it first, and then looks for dooms, and then
//!   whether the name is there. A name under a doom is not used.
//! - So of the two at least one sees the other. A collector that was stopped midway leaves its doom for a
//!   day, and may delete for an hour after it has read the pins.
//! - A name that was deleted stays doomed for a day, as a delete may come late. A pin or a doom
//!   that is damaged stands for every name, for a day.
//!
//! Times are the store's own: an object's age is that of the newest object beside it.
//!
//! Deliberately absent: which generation is current, which are kept, what a file holds.

mod ages;
mod collect;
mod fetch;
mod format;
mod generation_id;
mod names;
mod pin;
mod publish;
mod source;
mod upload;

use std::time::Duration;

use uuid::Uuid;

use crate::objects::{ObjectBucket, RetryPatience};

pub use collect::{Collected, Collecting};
pub use fetch::Fetched;
pub use format::{FILES_MAX, HEADER_MAX, MANIFEST_MAX, NameList, ShardGeneration, StoredFile};
pub use generation_id::GenerationId;
pub use pin::LeasedPin;
pub use source::FileSource;

/// What is being published is kept for so long.
const PUBLISHING: Duration = Duration::from_secs(3600);

/// Generations in a store. A clone is a cheap handle.
#[derive(Clone, Debug)]
pub struct Generations {
    bucket: ObjectBucket,
    cluster: Uuid,
    patience: RetryPatience,
    /// How long what is being published is kept without a manifest, and its manifest without being
    /// current.
    pub(crate) publishing: Duration,
    /// Faults on purpose, which a simulation has to notice: collection does not read pins.
    #[cfg(test)]
    pub(crate) pins_ignored: bool,
    /// Nobody looks for dooms.
    #[cfg(test)]
    pub(crate) dooms_ignored: bool,
}

impl Generations {
    /// Those in a store of the cluster `cluster`.
    pub fn new(bucket: ObjectBucket, cluster: Uuid, patience: RetryPatience) -> Self {
        Self {
            bucket,
            cluster,
            patience,
            publishing: PUBLISHING,
            #[cfg(test)]
            pins_ignored: false,
            #[cfg(test)]
            dooms_ignored: false,
        }
    }
}

#[cfg(test)]
mod tests;
