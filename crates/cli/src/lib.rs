//! The command `pipeann`: build, search, measure and inspect indexes; fill databases and look after
//! them.
//!
//! Composes engine and database and adds no capability of its own. Results go to standard output, as
//! tables or with `--json` as one object a line; everything else goes to standard error. Exit
//! codes: 0, 1 for an error (one line with its causes), 2 for a wrong call, 130 for Ctrl-C.

mod building;
mod collections;
mod columns;
mod commands;
mod inspection;
mod job;
mod making;
mod measure;
mod opening;
mod plots;
mod policy;
mod progress;
mod searching;
mod table;
mod truth;
mod updates;
mod vectors_file;
mod width_table;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use pipeann_server::process;
use pipeann_server::serve::{self, ServeArgs};

use commands::{
    bench, build, cluster, collections as load, convert, db, demo, estimate, gt, import, inspect,
    open_time, partition, raw, search, updates as updates_command,
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
    Serve(ServeArgs),
    Estimate(estimate::EstimateArgs),
    Cluster(cluster::ClusterArgs),
    Bench(bench::BenchArgs),
    Raw(raw::RawArgs),
    OpenTime(open_time::OpenTimeArgs),
    Collections(load::CollectionsArgs),
    Updates(updates_command::UpdatesArgs),
}

/// Runs the command `pipeann`.
pub fn run() -> ExitCode {
    process::begin();
    let given = match pipeann_server::expanded(Cli::command(), std::env::args_os().collect()) {
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
        PipeannCommand::Bench(args) => bench::run(&args),
        PipeannCommand::Raw(args) => raw::run(&args),
        PipeannCommand::OpenTime(args) => open_time::run(&args),
        PipeannCommand::Db(args) => db::run(&args),
        PipeannCommand::Serve(args) => serve::run(&args),
        PipeannCommand::Collections(args) => load::run(&args),
        PipeannCommand::Updates(args) => updates_command::run(&args),
    })
}
