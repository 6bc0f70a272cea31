//! Who is alive in a cluster, and who leads which shard.
//!
//! A [`Coordinator`] lets a server [join](Coordinator::join), and tells who else has. A [`ClusterMember`]
//! stands under a lease, campaigns for shards, and knows for how long its lease certainly runs.
//! [`etcd`] does it by etcd; [`memory`] does the same in one process for tests and simulations, with
//! switches for what may happen to leases, networks and data.
//!
//! Fencing is absent on purpose: the log in the object store refuses an old leader, whatever is
//! written here. What is written here only tells whom to ask, and bounds how long one waits. So all
//! of it can be made again, and its loss causes elections, never wrong answers.
//!
//! Nothing here knows a database, an index or a store.

mod clock;
mod coordinator;
mod counts;
mod election;
mod error;
pub mod etcd;
mod formats;
mod guards;
mod info;
mod keys;
mod lease;
pub mod memory;
mod notices;
mod records;
mod view;

pub use clock::{BootClock, Boottime, HandClock};
pub use coordinator::{
    ClusterMember, Coordinator, Lead, LeadingServer, PutIf, Standing, StoredValue,
};
pub use coordinator::{SHARDS_MAX, TERM_MAX, VALUE_MAX, VALUES_MAX};
pub use counts::Traffic;
pub use error::Error;
pub use formats::SharedFormats;
pub use guards::CallerGuards;
pub use info::{ServerInfo, ServerKey};
pub use notices::{Noticed, Notices};
