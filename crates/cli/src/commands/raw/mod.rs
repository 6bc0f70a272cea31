//! `pipeann raw`: what devices give, and raw SSDs: whose they are, and what they hold.

mod devices;
mod measure;

use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

const ABOUT: &str = "Measure random page reads of an index's files; look after raw SSDs";
const LONG_ABOUT: &str = "Measure random page reads of an index's files; look after raw SSDs\n\n\
     With --index it measures what the device gives. The commands are about the SSDs of --backend spdk.";

/// A command about devices, or without one what to measure.
#[derive(Debug)]
pub(crate) enum RawArgs {
    Devices(devices::DevicesCommand),
    Measure(measure::MeasureArgs),
}

// By hand, since what is flattened and optional is only there if an argument of its own is given, and
// not one of what is flattened into it.
impl FromArgMatches for RawArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand_name() {
            Some(_) => devices::DevicesCommand::from_arg_matches(matches).map(Self::Devices),
            None => measure::MeasureArgs::from_arg_matches(matches).map(Self::Measure),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RawArgs {
    fn augment_args(command: Command) -> Command {
        let command =
            measure::MeasureArgs::augment_args(command).about(ABOUT).long_about(LONG_ABOUT);
        devices::DevicesCommand::augment_subcommands(command)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommand_required(false)
            .arg_required_else_help(false)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Runs the command.
pub(crate) fn run(args: &RawArgs) -> Result<()> {
    match args {
        RawArgs::Devices(command) => devices::run(command),
        RawArgs::Measure(args) => measure::run(args),
    }
}
