//! `pipeann import-diskann`: an index from one that DiskANN has built.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pipeann_engine::build::{BuildError, BuildOptions, DiskannIndex, VamanaOptions};
use pipeann_engine::format::DiskannError;
use pipeann_engine::quant::CodeKind;
use pipeann_engine::types::{Metric, VectorType};

use crate::building::import_index;
use crate::interrupt;
use crate::opening::parse_limit;
use crate::table::{print_json, print_line, print_pairs};

/// Make an index of a disk index of DiskANN 0.7, keeping its graph
///
/// Edges, medoid and row ids are taken over; pages, codes and head index are made anew. Of DiskANN's
/// files PREFIX_disk.index is read, and where they exist PREFIX_metadata.bin and
/// PREFIX_disk.index_max_base_norm.bin.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// What the names of DiskANN's files begin with, as DIR/ann
    #[arg(long, value_name = "PREFIX")]
    from: PathBuf,
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// How vectors are compared: l2, ip or cosine [default: what PREFIX_metadata.bin tells]
    #[arg(long)]
    metric: Option<Metric>,
    /// Type of the vectors: f32, u8 or i8 [default: what PREFIX_metadata.bin tells]
    #[arg(long = "type", value_name = "TYPE")]
    vector_type: Option<VectorType>,
    /// What in-memory codes are made of: pq or rabitq
    #[arg(long, value_name = "KIND", default_value_t = CodeKind::Product)]
    codes: CodeKind,
    /// Most bytes of the in-memory code of a vector [default: as `pipeann build` chooses]
    #[arg(long, value_name = "BYTES")]
    code_bytes: Option<usize>,
    /// Memory that searches will have, as 512MiB, for codes as long as that allows
    #[arg(long, value_name = "LIMIT", value_parser = parse_limit)]
    search_memory: Option<u64>,
    /// Threads; 0 for one on each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Partition directories
    #[arg(long, value_name = "N", default_value_t = 1)]
    partitions: usize,
    /// Bytes of a page, a multiple of 4096 [default: by the record]
    #[arg(long, value_name = "BYTES")]
    page_bytes: Option<usize>,
    /// Share of a page's records in use after the import
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
pub(crate) fn run(args: &ImportArgs) -> Result<()> {
    let from = DiskannIndex::open(&args.from, args.vector_type, args.metric).map_err(explain)?;
    let graph =
        VamanaOptions { threads: args.threads, seed: args.seed, ..VamanaOptions::default() };
    let options = BuildOptions {
        graph,
        codes: args.codes,
        code_bytes: args.code_bytes,
        search_memory: args.search_memory,
        fill: args.fill,
        page_bytes: args.page_bytes,
        partitions: args.partitions,
        overwrite: args.overwrite,
        ..BuildOptions::new(from.metric())
    };
    let cancel = interrupt::flag()?;
    let built = import_index(&from, &args.index, &options, &cancel)?;
    if args.json {
        return print_json(&built.json());
    }
    print_pairs(&built.pairs())?;
    print_line(&format!(
        "search it: pipeann search --index {} --queries FILE --k 10",
        args.index.display()
    ))
}

/// Names the flag for what has to be given.
fn explain(error: BuildError) -> anyhow::Error {
    let flag = match &error {
        BuildError::Diskann { problem: DiskannError::Untold { what: "metric" }, .. } => "--metric",
        BuildError::Diskann { problem: DiskannError::Untold { .. }, .. } => "--type",
        _ => return error.into(),
    };
    anyhow::Error::new(error).context(format!("{flag} is needed"))
}
