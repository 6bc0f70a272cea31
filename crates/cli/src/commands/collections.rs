//! `pipeann collections`: loads on a database of collections, measured. One workload a subcommand;
//! the workloads live in `crate::collections`.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::collections::{fill, live, plans, reopen, search};

/// Write to collections of a database, search and reopen them, and measure it
#[derive(Debug, Args)]
pub(crate) struct CollectionsArgs {
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
pub(crate) fn run(args: &CollectionsArgs) -> Result<()> {
    match &args.workload {
        Workload::Fill(args) => fill::run(args),
        Workload::Reopen(args) => reopen::run(args),
        Workload::Live(args) => live::run(args),
        Workload::Search(args) => search::run(args),
        Workload::Explain(args) => plans::run(args),
    }
}
