//! `pipeann partition`: an index in other partitions, without its graph being built again.

use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, ensure};
use clap::Args;
use pipeann_engine::build::{BuildOptions, PartitionBy, VamanaOptions};
use pipeann_engine::index::{Index, StandingError};
use pipeann_engine::memory::MemoryLimit;
use pipeann_server::interrupt::{self, Interrupted};

use crate::building::{explain, repartition_files, repartition_index};
use crate::opening::{Reading, parse_limit};
use crate::progress;
use crate::table::{print_json, print_pairs};

/// Make an index in other partitions of one that is there, keeping its graph
///
/// Rows, row ids, edges, codes and size of pages stay; pages and head index are laid out anew. The
/// other index is only read. Vectors and graph are in memory meanwhile, or with --memory in files
/// beside the new index.
#[derive(Debug, Args)]
pub(crate) struct PartitionArgs {
    /// Directory of the index that is there
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Directory of the index that is made
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Partition directories, each of which can be on a server of its own
    #[arg(long, value_name = "N")]
    partitions: usize,
    /// What rows of a partition have in common: graph (near neighbours), kmeans, random, or order
    /// (of pages)
    #[arg(long, value_name = "HOW", default_value = "graph")]
    partition_by: PartitionBy,
    /// Most memory that it takes, as 1GiB; vectors and graph then wait in files [default: all that it
    /// wants]
    #[arg(long, value_name = "LIMIT", value_parser = parse_limit)]
    memory: Option<u64>,
    /// Threads; 0 for one on each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Share of a page's records in use at first
    #[arg(long, value_name = "SHARE", default_value_t = 0.96)]
    fill: f64,
    /// Decides all that is random
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Replace an index that stands in the directory
    #[arg(long)]
    overwrite: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &PartitionArgs) -> Result<()> {
    let opening = || format!("opening {}", args.from.display());
    let options = args.reading.options(MemoryLimit::Floor)?;
    let index = Index::open(&args.from, &options).with_context(opening)?;
    let same = args
        .index
        .canonicalize()
        .is_ok_and(|to| args.from.canonicalize().is_ok_and(|from| to == from));
    ensure!(!same, "--from and --index are the same directory");
    let graph =
        VamanaOptions { threads: args.threads, seed: args.seed, ..VamanaOptions::default() };
    let options = BuildOptions {
        graph,
        fill: args.fill,
        partitions: args.partitions,
        partition_by: args.partition_by,
        overwrite: args.overwrite,
        ..BuildOptions::new(index.metric())
    };
    let cancel = interrupt::flag()?;
    let refused = |error| explain_standing(error, &args.from);
    // Reading takes long, and as much disk as is read.
    index.check_repartition(args.memory, &args.index, &options).map_err(refused)?;
    let bar = progress::bar("read", u64::from(index.pages()), "pages");
    let built = if let Some(limit) = args.memory {
        let files = index.standing_files_until(&args.index, &mut |_| bar.inc(1), &cancel);
        bar.finish_and_clear();
        let files = files.map_err(refused)?;
        drop(index);
        repartition_files(&files, limit, &args.index, &options, &cancel)?
    } else {
        let graph = index.standing_graph_until(&mut |_| bar.inc(1), &cancel);
        bar.finish_and_clear();
        let graph = graph.map_err(refused)?;
        drop(index);
        repartition_index(graph, &args.index, &options, &cancel)?
    };
    if args.json { print_json(&built.json()) } else { print_pairs(&built.pairs()) }
}

fn explain_standing(error: StandingError, from: &Path) -> Error {
    match error {
        StandingError::Cancelled(_) => Interrupted.into(),
        StandingError::Files(error) => explain(error),
        error => Error::new(error).context(format!("reading {}", from.display())),
    }
}
