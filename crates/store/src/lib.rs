//! What a cluster keeps in an object store, as bytes.
//!
//! [`objects`] is the store itself: a directory, S3 or memory, probed before it is trusted.
//! [`log`] holds the log of each shard, one object for each batch, fenced by put-if-absent alone.
//! [`generations`] are a shard's derived state as files, found again by their contents.
//! [`blocking`] is all of it for callers on ordinary threads; what is beneath is asynchronous, so that
//! a simulation can drive it.
//!
//! Deliberately absent: rows, schemas, and what a record means. Names and bytes of all objects are in
//! `docs/store-format.md`, reasons in `docs/decisions/0046-logs-in-an-object-store.md`.

pub mod blocking;
pub mod generations;
pub mod log;
pub mod objects;
pub mod sim;

pub use blocking::{ClusterStore, ShardGenerations, ShardLeader, ShardReader, shards};
pub use generations::{Collected, Fetched, GenerationId, LeasedPin, ShardGeneration, StoredFile};
pub use log::{Batch, Entry, EntryRef, LeaderName, LogError, Position, ShardId, Stamp};
pub use objects::{Advice, ObjectsError, StoreRequests};
