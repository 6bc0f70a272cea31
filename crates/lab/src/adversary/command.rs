//! `pipeann-lab crash kill` and `pipeann-lab crash power-cut`: see the module's description. Prints
//! one line of JSON; the exit code is 0 only when nothing was lost.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kill::{KillOptions, kill};
use super::load::{self, WritingOptions};
use super::model::THREADS;
use super::power_cut::{PowerCutOptions, cut};
use super::vectors::Vectors;
use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;

/// Kill the database, or take its power away, and compare what is left
#[derive(Debug, Args)]
pub(crate) struct CrashArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Kill a load at random moments, and compare what is left.
    Kill {
        /// A directory that does not exist yet, for the database.
        #[arg(long)]
        dir: PathBuf,
        /// How often the load is killed.
        #[arg(long, default_value_t = 50)]
        rounds: u64,
        /// Decides about the moments.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The longest that the load lives, in milliseconds.
        #[arg(long, default_value_t = 700)]
        longest_ms: u64,
        /// Searches compared with exact truth in each round.
        #[arg(long, default_value_t = 20)]
        queries: u64,
        /// Vectors of bytes in the layout .u8bin; made ones unless given.
        #[arg(long)]
        base: Option<PathBuf>,
    },
    /// Record a load, take its power away after every operation, and compare what is left.
    PowerCut {
        /// A directory to work in, best in memory.
        #[arg(long)]
        dir: PathBuf,
        /// Writes of each thread.
        #[arg(long, default_value_t = 60)]
        writes: u64,
        /// The power goes after every so many operations.
        #[arg(long, default_value_t = 1)]
        every: u64,
        /// Different tears tried for each cut.
        #[arg(long, default_value_t = 2)]
        tears: u64,
        /// Without a graph.
        #[arg(long)]
        exact: bool,
    },
    /// The load itself; started by the other two.
    #[command(hide = true)]
    Load {
        #[arg(long)]
        dir: PathBuf,
        #[arg(long)]
        base: Option<PathBuf>,
        #[arg(long, value_delimiter = ',')]
        from: Vec<u64>,
        #[arg(long)]
        writes: Option<u64>,
        #[arg(long)]
        small: bool,
        #[arg(long)]
        exact: bool,
    },
}

/// Vectors taken from a file.
const MOST_VECTORS: usize = 200_000;

fn load_command(dir: &Path, from: [u64; THREADS as usize]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program's path")?);
    let from = from.map(|number| number.to_string()).join(",");
    command.args(["crash", "load", "--dir"]).arg(dir).args(["--from", &from]);
    Ok(command)
}

/// Runs the command.
pub(crate) fn run(args: CrashArgs) -> anyhow::Result<()> {
    match args.what {
        What::Kill { dir, rounds, seed, longest_ms, queries, base } => {
            anyhow::ensure!(!dir.exists(), "{} exists already", dir.display());
            let vectors = Vectors::read(base.as_deref(), MOST_VECTORS)?;
            let options =
                KillOptions { load: WritingOptions::large(), rounds, seed, longest_ms, queries };
            load_command(&dir, [0; THREADS as usize])?;
            let command = |from| {
                let mut command = load_command(&dir, from).expect("it was found a moment ago");
                if let Some(base) = &base {
                    command.arg("--base").arg(base);
                }
                command
            };
            let kills = kill(&command, &dir, &vectors, &options)?;
            println!(
                "{}",
                json!({
                    "rounds": rounds, "worked": kills.worked, "answered": kills.answered,
                    "rows": kills.rows, "recall": kills.recall
                })
            );
        }
        What::PowerCut { dir, writes, every, tears, exact } => {
            let vectors = Vectors::read(None, MOST_VECTORS)?;
            let mut command = load_command(&dir.join("load"), [0; THREADS as usize])?;
            command.args(["--small", "--writes", &writes.to_string()]);
            if exact {
                command.arg("--exact");
            }
            let load = WritingOptions { graph: !exact, ..WritingOptions::small(writes) };
            let options = PowerCutOptions { load, every, tears };
            let cuts = cut(command, &dir, &vectors, &options)?;
            println!(
                "{}",
                json!({
                    "operations": cuts.operations, "syncs": cuts.syncs, "opened": cuts.opened,
                    "answered": cuts.answered
                })
            );
        }
        What::Load { dir, base, from, writes, small: is_small, exact } => {
            let vectors = Vectors::read(base.as_deref(), MOST_VECTORS)?;
            let from = from.try_into().ok().context("a number for each thread")?;
            let options = if is_small {
                WritingOptions::small(writes.unwrap_or(u64::MAX))
            } else {
                WritingOptions::large()
            };
            std::fs::create_dir_all(&dir)?;
            let options = WritingOptions { graph: !exact, ..options };
            load::run(&dir, &vectors, from, &options)?;
        }
    }
    Ok(())
}
