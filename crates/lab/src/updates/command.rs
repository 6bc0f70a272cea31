//! `pipeann-lab updates`: one workload a subcommand.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::{churn, drift, insert};

/// Change an index while it is searched, and measure it
#[derive(Debug, Args)]
pub(crate) struct IndexLoadArgs {
    #[command(subcommand)]
    workload: IndexWorkload,
}

#[derive(Debug, Subcommand)]
enum IndexWorkload {
    Insert(insert::InsertArgs),
    Churn(churn::ChurnArgs),
    Drift(drift::DriftArgs),
    Split(drift::SplitArgs),
}

/// Runs the command.
pub(crate) fn run(args: &IndexLoadArgs) -> Result<()> {
    match &args.workload {
        IndexWorkload::Insert(args) => insert::run(args),
        IndexWorkload::Churn(args) => churn::run(args),
        IndexWorkload::Drift(args) => drift::run(args),
        IndexWorkload::Split(args) => drift::split(args),
    }
}
