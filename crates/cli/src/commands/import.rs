//! `pipeann import-diskann`: an index from one that DiskANN has built.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pipeann_engine::build::{BuildError, DiskannIndex, VamanaOptions};
use pipeann_engine::format::DiskannError;
use pipeann_engine::types::{Metric, VectorType};
use pipeann_server::interrupt;

use crate::building::import_index;
use crate::making::MakingArgs;

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
    /// How vectors are compared: l2, ip or cosine [default: what PREFIX_metadata.bin tells]
    #[arg(long)]
    metric: Option<Metric>,
    /// Type of the vectors: f32, u8 or i8 [default: what PREFIX_metadata.bin tells]
    #[arg(long = "type", value_name = "TYPE")]
    vector_type: Option<VectorType>,
    #[command(flatten)]
    making: MakingArgs,
}

/// Runs the command.
pub(crate) fn run(args: &ImportArgs) -> Result<()> {
    let from = DiskannIndex::open(&args.from, args.vector_type, args.metric).map_err(explain)?;
    let options = args.making.options(from.metric(), VamanaOptions::default());
    let cancel = interrupt::flag()?;
    let built = import_index(&from, args.making.index(), &options, &cancel)?;
    args.making.tell(&built)
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
