//! `pipeann raw`: what devices give, and raw SSDs: whose they are, and what they hold.

mod devices;
mod measure;

use anyhow::{Context, Result};
use clap::Args;

/// Measure random page reads of an index's files; look after raw SSDs
///
/// With --index it measures what the device gives. The commands are about the SSDs of --backend spdk.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct RawArgs {
    #[command(subcommand)]
    devices: Option<devices::DevicesCommand>,
    #[command(flatten)]
    measure: Option<measure::MeasureArgs>,
}

/// Runs the command.
pub(crate) fn run(args: &RawArgs) -> Result<()> {
    match &args.devices {
        Some(command) => devices::run(command),
        None => measure::run(args.measure.as_ref().context("--index names an index")?),
    }
}
