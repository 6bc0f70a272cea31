//! Integration tests of the database: real processes, real files.

mod backup_kill;
mod bad_input;
mod bulk;
mod bulk_crash;
mod child;
mod collection;
mod collection_damage;
mod collection_kill;
mod collection_model;
mod collection_power_cut;
mod collection_random;
mod data;
mod database;
mod filter;
mod filter_indexes;
mod filter_moments;
mod filter_plans;
mod flush;
mod full_disk;
mod graph;
mod log_kill;
mod read_only;
mod scalars;
mod schemas;
mod snapshot;
mod snapshot_index;
