//! The server as a process: what its flags mean, what signals do, where it listens, by which
//! certificates, under which memory limit, and as which server of a cluster.
//!
//! The command line and the Python package run it from here, and open what they open themselves by
//! the same rules ([`opening`]). What is answered to clients is the door's, in `pipeann-milvus`; what
//! servers share is `pipeann-replica`'s.

// They panic where nobody listens any more; see `process::say`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod access_file;
mod allocator;
mod clustered;
mod config_file;
pub mod interrupt;
pub mod joining;
mod meanwhile;
pub mod opening;
pub mod privacy;
pub mod process;
pub mod serve;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use serve::ServerFlags;

pub use clustered::EtcdArgs;
pub use config_file::expanded;

/// The program `pipeann_milvus_server`: the command `pipeann serve` under the name that launchers look
/// for.
#[derive(Debug, Parser)]
#[command(name = "pipeann_milvus_server", version, max_term_width = 100)]
struct ServerCli {
    #[command(flatten)]
    serve: ServerFlags,
}

/// Runs the program `pipeann_milvus_server`.
pub fn run() -> ExitCode {
    match run_with(std::env::args_os().collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            process::say(why);
            ExitCode::FAILURE
        }
    }
}

/// The same with these arguments, the name of the program first, for another program that becomes it:
/// until it is interrupted. Wrong arguments end the process.
///
/// # Errors
/// What went wrong, in one line.
pub fn run_with(given: Vec<OsString>) -> Result<(), String> {
    process::begin();
    let served = expanded(ServerCli::command(), given)
        .and_then(|given| serve::run(&ServerCli::parse_from(given).serve));
    served.map_err(|error| process::one_line(&error))
}
