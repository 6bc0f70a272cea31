//! Integration tests of the database: real processes, real files.

mod bad_input;
mod child;
mod collection;
mod collection_damage;
mod collection_kill;
mod collection_model;
mod collection_power_cut;
mod collection_random;
mod data;
mod database;
mod flush;
mod full_disk;
mod graph;
mod log_kill;
mod schemas;
