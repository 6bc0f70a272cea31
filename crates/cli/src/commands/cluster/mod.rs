//! `pipeann cluster`: one graph over several servers.

mod certificates;
mod count;
mod count_modes;
mod demo;
mod hop;
mod joining;
mod modes;
mod search;
mod serve;
mod split;

use anyhow::Result;
use clap::{Args, Subcommand};
pub(crate) use joining::join;

/// One graph over several servers: serve it, search it, and see what it takes
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Serve(serve::ServeArgs),
    Search(search::SearchArgs),
    Certificates(certificates::CertificatesArgs),
    Count(count::CountArgs),
    Hop(hop::HopArgs),
    Split(split::SplitArgs),
}

/// Runs the command.
pub(crate) fn run(args: &ClusterArgs) -> Result<()> {
    match &args.command {
        Command::Demo(args) => demo::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Search(args) => search::run(args),
        Command::Certificates(args) => certificates::run(args),
        Command::Count(args) => count::run(args),
        Command::Hop(args) => hop::run(args),
        Command::Split(args) => split::run(args),
    }
}
