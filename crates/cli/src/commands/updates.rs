//! `pipeann updates`: loads that change an index, measured. One workload a subcommand; the
//! workloads live in `crate::updates`.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::updates::{churn, drift, insert};

/// Change an index while it is searched, and measure it
#[derive(Debug, Args)]
pub(crate) struct UpdatesArgs {
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
pub(crate) fn run(args: &UpdatesArgs) -> Result<()> {
    match &args.workload {
        IndexWorkload::Insert(args) => insert::run(args),
        IndexWorkload::Churn(args) => churn::run(args),
        IndexWorkload::Drift(args) => drift::run(args),
        IndexWorkload::Split(args) => drift::split(args),
    }
}
