//! `pipeann gt`: the exact nearest rows of every query, on all cores.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use pipeann_engine::types::Metric;
use pipeann_server::interrupt;
use serde_json::json;

use crate::exact::exact;
use crate::measure::{CpuTime, rounded, seconds};
use crate::table::{count, duration, print_json, print_line};
use crate::vectors_file::{VectorsFile, check_same_shape};

/// Find the exact nearest rows of every query
#[derive(Debug, Args)]
pub(crate) struct GtArgs {
    /// Vectors to search: .fbin, .f16bin, .bf16bin, .u8bin, .i8bin, .bbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Queries, of the same type and dimension
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Rows to find for each query
    #[arg(long, default_value_t = 100)]
    k: usize,
    /// How vectors are compared: l2, ip or cosine; binary ones: hamming or jaccard
    #[arg(long)]
    metric: Metric,
    /// Where to write the truth: u32 queries, u32 k, ids as u32, distances as f32
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Whether a file can be written there, which is better known before the work than after it.
fn check_writable(out: &Path) -> Result<()> {
    let is_new = !out.exists();
    let opened = File::options().create(true).append(true).open(out);
    opened.with_context(|| format!("{}: cannot be written", out.display()))?;
    if is_new {
        fs::remove_file(out).with_context(|| format!("{}: cannot be removed", out.display()))?;
    }
    Ok(())
}

/// Runs the command.
pub(crate) fn run(args: &GtArgs) -> Result<()> {
    let started = Instant::now();
    let base = VectorsFile::open(&args.base)?;
    let queries = VectorsFile::open(&args.queries)?;
    let set = base.set();
    check_same_shape(&queries, (set.dim(), set.vector_type()), &args.base)?;
    check_writable(&args.out)?;
    let cancel = interrupt::flag()?;
    let truth = exact(set, queries.set(), args.k, args.metric, &cancel)?;
    truth.write(&args.out)?;
    let wall = started.elapsed();
    if args.json {
        return print_json(&json!({
            "queries": truth.queries(), "k": truth.k(), "rows": base.rows(), "dim": set.dim(),
            "type": set.vector_type().name(), "metric": args.metric.name(),
            "wall_s": seconds(wall), "cpu_s": rounded(CpuTime::now().total_us() / 1e6, 3),
            "out": args.out,
        }));
    }
    print_line(&format!(
        "the {} nearest of {} rows for {} queries, in {}: {}",
        args.k,
        count(base.rows() as u64),
        count(queries.rows() as u64),
        duration(wall.as_secs_f64()),
        args.out.display()
    ))
}
