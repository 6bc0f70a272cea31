//! Integration tests of the database: real processes, real files.

mod bad_input;
mod collection;
mod collection_kill;
mod collection_model;
mod collection_power_cut;
mod data;
mod database;
mod graph;
mod log_kill;
