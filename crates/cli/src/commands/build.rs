//! `pipeann build`: an index from a vector file.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pipeann_engine::build::{BuildOptions, VamanaOptions};
use pipeann_engine::quant::CodeKind;
use pipeann_engine::types::Metric;

use crate::building::build_index;
use crate::interrupt;
use crate::opening::parse_bytes;
use crate::table::{print_json, print_line, print_pairs};
use crate::vectors_file::VectorsFile;

/// Build an index of the vectors in a file
///
/// An estimate of time, memory and disk is printed first. The index appears in its directory
/// when it is whole; Ctrl-C leaves nothing behind.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Vectors: .u8bin, .fbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// How vectors are compared: l2, ip or cosine; binary ones: hamming or jaccard
    #[arg(long)]
    metric: Metric,
    /// Most edges of a node (R)
    #[arg(long, value_name = "EDGES", default_value_t = 64)]
    degree: usize,
    /// Candidate list of the search for neighbours (L)
    #[arg(long, value_name = "N", default_value_t = 96)]
    list: usize,
    /// Slack of robust prune: larger keeps more distant edges
    #[arg(long, default_value_t = 1.2)]
    alpha: f32,
    /// How often all rows are inserted
    #[arg(long, value_name = "TIMES", default_value_t = VamanaOptions::default().passes)]
    passes: usize,
    /// What in-memory codes are made of: pq, 256 trained centroids for each byte, or rabitq, some
    /// bits of each component, without training
    #[arg(long, value_name = "KIND", default_value_t = CodeKind::Product)]
    codes: CodeKind,
    /// Most bytes of the in-memory code of a vector; rabitq takes an eighth of the dimension for
    /// each bit and 8 [default: by the dimension (pq: 32 up to 256, then one for eight components;
    /// rabitq: 4 bits) and by --search-memory]
    #[arg(long, value_name = "BYTES")]
    code_bytes: Option<usize>,
    /// Memory that searches will have, as 512MiB: where --code-bytes does not say it, codes are as
    /// long as that allows, at most one byte for two components
    #[arg(long, value_name = "LIMIT", value_parser = memory)]
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
    /// Share of a page's records in use after the build
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

fn memory(s: &str) -> Result<u64, String> {
    parse_bytes(s).ok_or_else(|| format!("`{s}` is no memory; expected bytes as 512MiB or 1GiB"))
}

/// Runs the command.
pub(crate) fn run(args: &BuildArgs) -> Result<()> {
    let options = BuildOptions {
        graph: VamanaOptions {
            degree: args.degree,
            list: args.list,
            alpha: args.alpha,
            passes: args.passes,
            threads: args.threads,
            seed: args.seed,
            ..VamanaOptions::default()
        },
        codes: args.codes,
        code_bytes: args.code_bytes,
        search_memory: args.search_memory,
        fill: args.fill,
        page_bytes: args.page_bytes,
        partitions: args.partitions,
        overwrite: args.overwrite,
        ..BuildOptions::new(args.metric)
    };
    let base = VectorsFile::open(&args.base)?;
    let cancel = interrupt::flag()?;
    let built = build_index(&base, &args.index, &options, &cancel)?;
    if args.json {
        return print_json(&built.json());
    }
    print_pairs(&built.pairs())?;
    print_line(&format!(
        "search it: pipeann search --index {} --queries FILE --k 10",
        args.index.display()
    ))
}
