//! The command `pipeann-lab`: the adversary of the database, and loads that only benchmarks use.
//!
//! For whoever works on pipeann. A command that it does not know itself is one of `pipeann`, whose
//! files, tables and exit codes it shares.

pub mod adversary;
mod bench;
mod collections;
mod hop;
mod open_time;
mod updates;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pipeann_server::process;

/// Measure pipeann, and try to break it; commands of `pipeann` work too.
#[derive(Debug, Parser)]
#[command(name = "pipeann-lab", version, max_term_width = 100)]
struct LabCli {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Bench(bench::command::JobArgs),
    Updates(updates::command::IndexLoadArgs),
    Collections(collections::command::DatabaseLoadArgs),
    OpenTime(open_time::FirstAnswerArgs),
    Hop(hop::HandOverArgs),
    Crash(adversary::CrashArgs),
    #[command(external_subcommand)]
    Pipeann(Vec<OsString>),
}

/// Runs the command `pipeann-lab`.
pub fn run() -> ExitCode {
    let command = LabCli::parse().command;
    if let LabCommand::Pipeann(words) = command {
        return pipeann_cli::run_with(["pipeann".into()].into_iter().chain(words).collect());
    }
    process::begin();
    process::ended(match command {
        LabCommand::Bench(args) => bench::command::run(&args),
        LabCommand::Updates(args) => updates::command::run(&args),
        LabCommand::Collections(args) => collections::command::run(&args),
        LabCommand::OpenTime(args) => open_time::run(&args),
        LabCommand::Hop(args) => hop::run(&args),
        LabCommand::Crash(args) => adversary::run(args),
        LabCommand::Pipeann(_) => unreachable!("it was run above"),
    })
}
