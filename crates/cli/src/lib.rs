//! The command `pipeann`: build, search, measure and inspect indexes; fill databases and look after
//! them.
//!
//! Composes engine and database and adds no capability of its own. Results go to standard output, as
//! tables or with `--json` as one object a line; everything else goes to standard error. Exit
//! codes: 0, 1 for an error (one line with its causes), 2 for a wrong call, 130 for Ctrl-C.

mod access_file;
mod allocator;
mod building;
mod clustered;
mod collections;
mod columns;
mod commands;
mod config_file;
mod inspection;
mod interrupt;
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

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use pipeann_cluster::placement::Placement;
use pipeann_cluster::transport::tcp::Tls;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use commands::{
    bench, build, cluster, collections as load, convert, db, demo, estimate, gt, import, inspect,
    open_time, partition, raw, search, serve, updates as updates_command,
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
    Serve(serve::ServeArgs),
    Estimate(estimate::EstimateArgs),
    Cluster(cluster::ClusterArgs),
    Bench(bench::BenchArgs),
    Raw(raw::RawArgs),
    OpenTime(open_time::OpenTimeArgs),
    Collections(load::CollectionsArgs),
    Updates(updates_command::UpdatesArgs),
}

/// The program `pipeann_milvus_server`: the command `pipeann serve` under the name that launchers look
/// for.
#[derive(Debug, Parser)]
#[command(name = "pipeann_milvus_server", version, max_term_width = 100)]
struct ServerCli {
    #[command(flatten)]
    serve: serve::ServeArgs,
}

/// Runs the command `pipeann`.
pub fn run() -> ExitCode {
    begin();
    let given = match config_file::expanded(Cli::command(), std::env::args_os().collect()) {
        Ok(given) => given,
        Err(error) => return report(&error),
    };
    ended(match Cli::parse_from(given).command {
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

/// Runs the program `pipeann_milvus_server`.
pub fn run_server() -> ExitCode {
    match server(std::env::args_os().collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pipeann: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The same with these arguments, the name of the program first, for another program that becomes it:
/// until it is interrupted. Wrong arguments end the process.
///
/// # Errors
/// What went wrong, in one line.
pub fn server(given: Vec<OsString>) -> Result<(), String> {
    begin();
    let served = config_file::expanded(ServerCli::command(), given)
        .and_then(|given| serve::run(&ServerCli::parse_from(given).serve));
    served.map_err(|error| one_line(&error))
}

/// What becomes part of a cluster: its topology, and certificates where the files of an authority, a
/// certificate and its key are named.
///
/// # Errors
/// What went wrong, in one line.
pub fn join_cluster(
    topology: &Path,
    certificates: Option<&[PathBuf; 3]>,
) -> Result<(Placement, Option<Tls>), String> {
    cluster::join(topology, certificates).map_err(|error| one_line(&error))
}

fn begin() {
    allocator::keep_little();
    // The engine warns of little, such as io_uring being blocked; people should see it. Of raw devices
    // they see what is done with them, too.
    let shown = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("pipeann_raw", LevelFilter::INFO)
        .with_target("pipeann_engine::io::raw", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(shown)).init();
}

fn ended(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Says what went wrong in one line, and chooses the exit code.
fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<interrupt::Interrupted>() {
        eprintln!("pipeann: interrupted");
        return ExitCode::from(interrupt::EXIT_CODE);
    }
    let closed_pipe = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<std::io::Error>().is_some_and(closed_pipe) {
        // Whoever read the output has seen enough.
        return ExitCode::SUCCESS;
    }
    eprintln!("pipeann: {}", one_line(error));
    ExitCode::FAILURE
}

/// The error and its causes, each once: some errors end with the words of their cause.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(|c| c.to_string().replace('\n', " ")) {
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    #[test]
    fn causes_are_told_once() {
        let error = anyhow!("too short").context("a.bin: too short").context("run `x`");
        assert_eq!(super::one_line(&error), "run `x`: a.bin: too short");
        let error = anyhow!("two\nlines").context("why");
        assert_eq!(super::one_line(&error), "why: two lines");
    }
}
