//! `pipeann build`: an index from a vector file.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pipeann_engine::build::VamanaOptions;
use pipeann_engine::io::BackendChoice;
use pipeann_engine::memory::MemoryLimit;
use pipeann_engine::types::Metric;
use pipeann_server::interrupt;
use pipeann_server::opening::By;

use crate::building::build_index;
use crate::making::MakingArgs;
use crate::opening::{self, Reading, parse_limit};
use crate::vectors_file::VectorsFile;

/// Build an index of the vectors in a file
///
/// An estimate of time, memory and disk is printed first. The index appears in its directory
/// when it is whole; Ctrl-C leaves nothing behind.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Vectors: .fbin, .f16bin, .bf16bin, .u8bin, .i8bin, .bbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
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
    /// Most memory that the build takes, as 1GiB; what does not fit is built in parts [default: all
    /// that it wants]
    #[arg(long, value_name = "LIMIT", value_parser = parse_limit)]
    memory: Option<u64>,
    #[command(flatten)]
    making: MakingArgs,
    #[command(flatten)]
    by: By,
}

/// Runs the command.
pub(crate) fn run(args: &BuildArgs) -> Result<()> {
    let graph = VamanaOptions {
        degree: args.degree,
        list: args.list,
        alpha: args.alpha,
        passes: args.passes,
        ..VamanaOptions::default()
    };
    let options = args.making.options(args.metric, graph);
    // Devices that cannot be used are told of before the work, and held until it is copied.
    let devices = matches!(args.by.backend, BackendChoice::Spdk).then(|| args.by.backend());
    let devices = devices.transpose()?;
    let base = VectorsFile::open(&args.base)?;
    let cancel = interrupt::flag()?;
    let built = build_index(&base, args.making.index(), &options, args.memory, &cancel)?;
    if devices.is_some() {
        let reading = Reading { by: args.by.clone(), ..Reading::default() };
        opening::open(args.making.index(), MemoryLimit::Floor, &reading)?;
    }
    args.making.tell(&built)
}
