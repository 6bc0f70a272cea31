//! `pipeann cluster`: one graph over several servers.

mod certificates;
mod count;
mod count_modes;
mod demo;
mod modes;
mod search;
mod serve;
mod split;

use anyhow::Result;
use clap::{Args, Subcommand};

/// One graph over several servers: serve it, search it, and see what it takes
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    Demo(demo::ClusterDemoArgs),
    Serve(serve::ClusterServeArgs),
    Search(search::ClusterSearchArgs),
    Certificates(certificates::CertificatesArgs),
    Count(count::CountArgs),
    Split(split::ClusterSplitArgs),
}

/// Runs the command.
pub(crate) fn run(args: &ClusterArgs) -> Result<()> {
    match &args.command {
        ClusterCommand::Demo(args) => demo::run(args),
        ClusterCommand::Serve(args) => serve::run(args),
        ClusterCommand::Search(args) => search::run(args),
        ClusterCommand::Certificates(args) => certificates::run(args),
        ClusterCommand::Count(args) => count::run(args),
        ClusterCommand::Split(args) => split::run(args),
    }
}
