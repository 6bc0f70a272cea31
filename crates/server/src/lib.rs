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

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser};
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
    let command = command(&given);
    let served = expanded(command.clone(), given).and_then(|given| {
        let matches = command.get_matches_from(given);
        serve::run(&ServerCli::from_arg_matches(&matches)?.serve)
    });
    served.map_err(|error| process::one_line(&error))
}

/// The command under the name that it was called by: it has several.
fn command(given: &[OsString]) -> Command {
    let command = ServerCli::command();
    let called = given.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    match called {
        Some(name) => command.display_name(name).bin_name(name),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_calls_itself_as_it_was_called() {
        for (called, name) in [
            ("/usr/local/bin/pipeann-server", "pipeann-server"),
            ("pipeann_milvus_server", "pipeann_milvus_server"),
        ] {
            for (flag, told) in [("--help", "Usage: "), ("--version", ""), ("--prot", "Usage: ")] {
                let given = [called, flag].map(OsString::from);
                let said = command(&given).try_get_matches_from(given).unwrap_err().to_string();
                assert!(said.contains(&format!("{told}{name} ")), "{flag}: {said}");
            }
        }
    }
}
