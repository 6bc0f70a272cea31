//! Integration tests of the database: real processes, real files.

mod backup_kill;
mod bad_input;
mod bulk;
mod bulk_crash;
mod collection;
mod collection_kill;
mod collection_model;
mod collection_power_cut;
mod data;
mod database;
mod graph;
mod log_kill;
mod read_only;
mod snapshot;
mod snapshot_index;
