//! The store for callers on ordinary threads.
//!
//! A [`ClusterStore`] owns a small runtime of its own. Calls hand their work to its threads and wait for
//! the answer, so they may come from any thread, also from those of another runtime, and none of them
//! waits for a thread of the caller's. What a caller passes in to be called, is called on its own thread.

mod generations;
mod pool;
mod shard;
mod store;

pub use generations::ShardGenerations;
pub use shard::{ShardLeader, ShardReader};
pub use store::{ClusterStore, shards};

#[cfg(test)]
mod tests;
