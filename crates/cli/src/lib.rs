//! The command `pipeann`: build, search, measure and inspect indexes; load databases, serve them and
//! look after them.
//!
//! Composes engine and database and adds no capability of its own. Results go to standard output, as
//! tables or with `--json` as one object a line; everything else goes to standard error. Exit
//! codes: 0, 1 for an error (one line with its causes), 2 for a wrong call, 130 for Ctrl-C.
//!
//! What is public serves `pipeann-lab`, whose commands read the same files and print the same tables.

pub mod authority;
pub mod building;
mod columns;
mod commands;
pub mod exact;
mod inspection;
mod making;
pub mod measure;
pub mod opening;
pub mod policy;
mod progress;
pub mod searching;
pub mod table;
pub mod truth;
pub mod vectors_file;
pub mod width_table;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use pipeann_server::process;
use pipeann_server::serve::{self, ServerFlags};

use commands::{
    build, cluster, convert, db, demo, estimate, gt, import, inspect, partition, raw, search,
};

/// An SSD-resident vector index: build, search, measure and inspect it.
#[derive(Debug, Parser)]
#[command(name = "pipeann", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: PipeannCommand,
}

#[derive(Debug, Subcommand)]
enum PipeannCommand {
    Demo(demo::DemoArgs),
    Build(build::BuildArgs),
    ImportDiskann(import::ImportArgs),
    Partition(partition::PartitionArgs),
    Search(search::SearchArgs),
    Inspect(inspect::InspectArgs),
    Gt(gt::GtArgs),
    Convert(convert::ConvertArgs),
    Db(db::DbArgs),
    Serve(ServerFlags),
    Estimate(estimate::EstimateArgs),
    Cluster(cluster::ClusterArgs),
    Raw(raw::RawArgs),
}

/// Runs the command `pipeann`, with the arguments of this process.
pub fn run() -> ExitCode {
    run_with(std::env::args_os().collect())
}

/// The same with these arguments, the name of the program first.
pub fn run_with(given: Vec<OsString>) -> ExitCode {
    process::begin();
    let given = match pipeann_server::expanded(Cli::command(), given) {
        Ok(given) => given,
        Err(error) => return process::ended(Err(error)),
    };
    process::ended(match Cli::parse_from(given).command {
        PipeannCommand::Demo(args) => demo::run(&args),
        PipeannCommand::Build(args) => build::run(&args),
        PipeannCommand::ImportDiskann(args) => import::run(&args),
        PipeannCommand::Partition(args) => partition::run(&args),
        PipeannCommand::Search(args) => search::run(&args),
        PipeannCommand::Inspect(args) => inspect::run(&args),
        PipeannCommand::Gt(args) => gt::run(&args),
        PipeannCommand::Convert(args) => convert::run(&args),
        PipeannCommand::Estimate(args) => estimate::run(&args),
        PipeannCommand::Cluster(args) => cluster::run(&args),
        PipeannCommand::Raw(args) => raw::run(&args),
        PipeannCommand::Db(args) => db::run(&args),
        PipeannCommand::Serve(args) => serve::run(&args),
    })
}
