//! The pipeann database: collections of rows with vectors and fields, over the engine.
//!
//! What is acknowledged is durable: every write is in the log, on stable storage, before it is
//! answered. Everything else (rows, graph, catalogue of ids) is derived state with the sequence
//! number up to which it has applied the log. Typed requests and typed errors; no wire type and
//! no Python type here.

pub mod access;
pub mod asker;
pub mod bulk;
pub mod catalog;
pub mod collection;
pub mod database;
pub mod disk;
pub mod docstore;
pub mod expr;
pub mod field_index;
mod files;
pub mod flat;
pub mod ids;
pub mod replication;
pub mod scalar;
pub mod scheduler;
pub mod schema;
pub mod snapshot;
pub mod value;
pub mod wal;
mod workers;
