//! The loads of benchmarks and the adversary, on small data made here.

mod bench;
mod changes;
mod collections;
mod crash;
#[path = "../../../cli/tests/cli/data.rs"]
mod data;
mod hop;
mod open_time;
mod updates;

/// The command that is run: that of users is in it, by which indexes are built and looked at.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pipeann-lab");
