//! Drives the `diskann-disk` crate as a rival: `build` makes a disk index and leaves
//! `cost.json` beside it, `search` prints one JSON line per list length.
//!
//! No node is cached in memory (the figures are taken without resident pages), and each
//! search thread owns a searcher, because a searcher runs one query at a time on its own
//! single-threaded runtime.

mod build;
mod files;
mod search;

use clap::{Parser, Subcommand};
use diskann::graph::config::{self, MaxDegree};

/// A rival of pipeann: the diskann-disk crate.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds a disk index and prints what it cost.
    Build(build::Options),
    /// Searches a disk index at several list lengths.
    Search(search::Options),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Build(options) if options.is_u8() => build::run::<u8>(&options),
        Command::Build(options) => build::run::<f32>(&options),
        Command::Search(options) if options.is_u8() => search::run::<u8>(&options),
        Command::Search(options) => search::run::<f32>(&options),
    }
}

/// The graph configuration as the crate's own tools set it up.
fn graph_config(degree: usize, list: usize) -> anyhow::Result<config::Config> {
    let metric = diskann_vector::distance::Metric::L2;
    let builder =
        config::Builder::new_with(degree, MaxDegree::default_slack(), list, metric.into(), |b| {
            b.saturate_after_prune(true);
        });
    Ok(builder.build()?)
}
