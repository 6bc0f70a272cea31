//! The command as users run it, on small data made here.

mod bad_input;
mod build;
mod cluster;
mod cluster_answers;
mod convert;
mod data;
mod db_backup;
mod db_load;
mod gt;
mod import;
mod inspect;
mod milvus_lite;
mod names;
mod search;
mod serve;

/// The command that is run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pipeann");
