//! `pipeann cluster`: one graph over several servers, and looking after several servers of one database.

mod answers;
mod certificates;
mod count;
mod count_args;
mod count_modes;
mod demo;
mod figures;
mod modes;
mod operator;
mod restore;
mod search;
mod serve;
mod split;
mod status;
mod times;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::operator::{DrainArgs, drain};
use self::restore::{ClusterRestoreArgs, restore};
use self::status::{ClusterStatusArgs, status};

/// Several servers: look after those of one database, or cut one graph over some
///
/// `status`, `drain` and `restore` are for servers of one database, which `pipeann serve --cluster`
/// starts. The others are for one graph that is cut over servers by a topology file.
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
    Count(count_args::CountArgs),
    Split(split::ClusterSplitArgs),
    Status(ClusterStatusArgs),
    Drain(DrainArgs),
    Restore(ClusterRestoreArgs),
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
        ClusterCommand::Status(args) => status(args),
        ClusterCommand::Drain(args) => drain(args),
        ClusterCommand::Restore(args) => restore(args),
    }
}
