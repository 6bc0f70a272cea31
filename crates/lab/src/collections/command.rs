//! `pipeann-lab collections`: one workload a subcommand.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::{fill, live, plans, reopen, search};

/// Write to collections of a database, search and reopen them, and measure it
#[derive(Debug, Args)]
pub(crate) struct DatabaseLoadArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    Fill(fill::FillArgs),
    Reopen(reopen::ReopenArgs),
    Live(live::LiveArgs),
    Search(search::CollectionSearchArgs),
    Explain(plans::ExplainArgs),
}

/// Runs the command.
pub(crate) fn run(args: &DatabaseLoadArgs) -> Result<()> {
    match &args.workload {
        Workload::Fill(args) => fill::run(args),
        Workload::Reopen(args) => reopen::run(args),
        Workload::Live(args) => live::run(args),
        Workload::Search(args) => search::run(args),
        Workload::Explain(args) => plans::run(args),
    }
}
