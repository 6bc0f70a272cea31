//! Builds a disk index with the crate's own builder and records its cost.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use diskann::utils::VectorRepr;
use diskann_disk::build::builder::build::DiskIndexBuilder;
use diskann_disk::data_model::AdHoc;
use diskann_disk::disk_index_build_parameter::{MemoryBudget, NumPQChunks};
use diskann_disk::storage::DiskIndexWriter;
use diskann_disk::{DiskIndexBuildParameters, QuantizationType};
use diskann_providers::model::IndexConfiguration;
use diskann_providers::storage::FileStorageProvider;
use diskann_vector::distance::Metric;

use crate::files::{shape, spent};

/// What to build from and where to.
#[derive(Args)]
pub struct Options {
    /// Vectors: `.u8bin` or `.fbin`.
    #[arg(long)]
    base: PathBuf,
    /// Directory of the index.
    #[arg(long)]
    out: PathBuf,
    #[arg(long, default_value_t = 64)]
    degree: usize,
    #[arg(long, default_value_t = 96)]
    list: usize,
    #[arg(long, default_value_t = 32)]
    code_bytes: usize,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Options {
    /// Whether the vectors are u8.
    pub fn is_u8(&self) -> bool {
        self.base.extension().is_some_and(|e| e == "u8bin")
    }
}

/// Builds, writes `cost.json` last and prints the same object.
pub fn run<T: VectorRepr + 'static>(options: &Options) -> Result<()> {
    std::fs::create_dir_all(&options.out)?;
    let mut head = [0; 8];
    File::open(&options.base).context("opening the base vectors")?.read_exact(&mut head)?;
    let (rows, dim) = shape(&head);
    let prefix = options.out.join("ann").to_string_lossy().into_owned();
    let base = options.base.to_string_lossy().into_owned();

    let parameters = DiskIndexBuildParameters::new(
        MemoryBudget::try_from_gb(16.0)?,
        QuantizationType::FP,
        NumPQChunks::new_with(options.code_bytes, dim)?,
    );
    let configuration = IndexConfiguration::new(
        Metric::L2,
        dim,
        rows,
        std::num::NonZeroUsize::MIN,
        options.threads,
        crate::graph_config(options.degree, options.list)?,
    )
    .with_pseudo_rng_from_seed(options.seed);
    let writer = DiskIndexWriter::new(base, prefix, None, 4096)?;

    let started = Instant::now();
    DiskIndexBuilder::<AdHoc<T>, _>::new(&FileStorageProvider, parameters, configuration, writer)?
        .build()?;
    let wall = started.elapsed().as_secs_f64();
    let (user, system, peak) = spent();
    let cost = serde_json::json!({
        "system": "diskann-disk", "version": "0.61.0", "rows": rows, "dim": dim,
        "degree": options.degree, "list": options.list, "code_bytes": options.code_bytes,
        "threads": options.threads, "wall_s": wall, "cpu_s": user + system,
        "peak_rss_bytes": peak,
    });
    std::fs::write(options.out.join("cost.json"), cost.to_string())?;
    println!("{cost}");
    Ok(())
}
