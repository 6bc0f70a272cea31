//! `pipeann estimate`: what an index will cost and give, before there is any data.

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use pipeann_engine::build::{BuildOptions, VamanaOptions};
use pipeann_engine::estimate::{
    DeviceSpeed, Effort, EstimateError, Expectation, Limit, LoadSpeed, Machine, Question, expect,
};
use pipeann_engine::quant::CodeKind;
use pipeann_engine::types::{Metric, VectorType};
use serde_json::{Value, json};

use crate::measure::rounded;
use crate::searching::threads;
use crate::table::{bytes, count, duration, print_json, print_line, print_pairs};
use pipeann_engine::memory::MemoryLimit;

/// A share of what is to be found.
fn recall(text: &str) -> Result<f64, String> {
    let recall = text.parse().ok().filter(|recall| (0.0..=1.0).contains(recall));
    recall.ok_or_else(|| "a recall is from 0 to 1, such as 0.95".to_owned())
}

/// Estimate an index before any of its data exists: recall, reads, rate, latency, memory, time and
/// disk
///
/// From the shape of the data, the memory for searching, and the device. Vectors are taken to be
/// about as hard to search as descriptors of images and embeddings of sentences. How far the
/// estimate was off on indexes that it was not fitted to is told with it.
#[derive(Debug, Args)]
pub(crate) struct EstimateArgs {
    /// Rows
    #[arg(long)]
    rows: u64,
    /// Components of a vector
    #[arg(long)]
    dim: usize,
    /// Their type: f32, f16, bf16, u8, i8 or binary
    #[arg(long = "type", value_name = "TYPE")]
    vector_type: VectorType,
    /// Memory for searching: floor (no pages stay in memory), all, or bytes as 512MiB or 1GiB
    #[arg(long, value_name = "LIMIT", default_value = "floor")]
    limit: MemoryLimit,
    /// How vectors are compared
    #[arg(long, default_value_t = Metric::L2)]
    metric: Metric,
    /// Most edges of a node
    #[arg(long, value_name = "EDGES", default_value_t = 64)]
    degree: usize,
    /// What in-memory codes are made of: pq or rabitq
    #[arg(long, value_name = "KIND", default_value_t = CodeKind::Product)]
    codes: CodeKind,
    /// Most bytes of the in-memory code of a vector [default: that of `pipeann build`]
    #[arg(long, value_name = "BYTES")]
    code_bytes: Option<usize>,
    /// Length of the candidate list
    #[arg(long, value_name = "N", conflicts_with = "recall")]
    list: Option<usize>,
    /// Recall@10 wanted; the list is chosen for it
    #[arg(long, default_value_t = 0.95, value_parser = recall)]
    recall: f64,
    /// Threads that build and search; 0 for one on each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Time of one read alone of a page, as `pipeann raw --depth 1` measures it
    #[arg(long, value_name = "MICROSECONDS", requires = "reads_per_s")]
    read_us: Option<f64>,
    /// Reads of pages a second, as `pipeann raw` measures them
    #[arg(long, value_name = "READS", requires = "read_us")]
    reads_per_s: Option<f64>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &EstimateArgs) -> Result<()> {
    let told = expect(&args.question()?).map_err(explain)?;
    if args.json {
        return print_json(&as_json(args, &told));
    }
    print_pairs(&pairs(args, &told))?;
    let e = told.errors;
    print_line(&format!(
        "nine in ten indexes that were not fitted were nearer than: recall {:.3}, reads {:.0}%, \
         queries a second {:.0}%, latency {:.0}%",
        e.recall,
        100.0 * e.reads,
        100.0 * e.qps,
        100.0 * e.latency,
    ))
}

impl EstimateArgs {
    fn question(&self) -> Result<Question> {
        let mut build = BuildOptions {
            graph: VamanaOptions { degree: self.degree, ..VamanaOptions::default() },
            codes: self.codes,
            code_bytes: self.code_bytes,
            ..BuildOptions::new(self.metric)
        };
        build.graph.threads = self.threads;
        let device = match (self.read_us, self.reads_per_s) {
            (Some(read_us), Some(reads_per_s)) => {
                let positive = read_us > 0.0 && reads_per_s > 0.0;
                ensure!(positive, "--read-us and --reads-per-s must be above 0");
                Some(DeviceSpeed { read_us, reads_per_s })
            }
            _ => None,
        };
        Ok(Question {
            rows: self.rows,
            dim: self.dim,
            vector_type: self.vector_type,
            build,
            limit: match self.limit {
                MemoryLimit::Floor => Limit::Floor,
                MemoryLimit::All => Limit::All,
                MemoryLimit::Bytes(limit) => Limit::Bytes(limit),
            },
            effort: self.list.map_or(Effort::Recall(self.recall), Effort::List),
            machine: Machine { threads: threads(self.threads), device },
        })
    }

    fn threads(&self) -> usize {
        threads(self.threads)
    }
}

fn explain(error: EstimateError) -> anyhow::Error {
    match error {
        EstimateError::BelowFloor { limit, needed } => anyhow!(
            "--limit {} is too small for this index, which opens with {needed} bytes ({})",
            bytes(limit),
            bytes(needed)
        ),
        other => other.into(),
    }
}

fn pairs(args: &EstimateArgs, told: &Expectation) -> Vec<(&'static str, String)> {
    let (shape, memory, threads) = (&told.shape, told.memory, args.threads());
    let speed = |s: &LoadSpeed| {
        format!(
            "recall {:.3}, {:.1} reads, {:.0} us, {:.0} queries/s",
            s.recall, s.reads, s.mean_us, s.qps
        )
    };
    vec![
        ("vectors", format!("{} x {} {}", count(shape.rows), shape.dim, args.vector_type)),
        (
            "pages",
            format!(
                "{} of {} bytes, {} records each",
                count(shape.pages),
                shape.page_bytes,
                shape.records_per_page
            ),
        ),
        ("codes", format!("{} bytes a vector", shape.code_bytes)),
        (
            "memory",
            format!(
                "{} (floor {}), {:.0}% of the pages resident",
                bytes(memory.total),
                bytes(memory.floor),
                100.0 * told.resident
            ),
        ),
        ("disk", bytes(told.build.disk_bytes)),
        (
            "building",
            format!(
                "{} on {threads} threads, {} of memory",
                duration(told.build.cpu_seconds / threads as f64),
                bytes(told.build.peak_memory_bytes)
            ),
        ),
        ("list", told.list.to_string()),
        ("one search at a time", speed(&told.idle)),
        ("busy", format!("{} ({threads} threads, 8 in flight on each)", speed(&told.busy))),
    ]
}

fn as_json(args: &EstimateArgs, told: &Expectation) -> Value {
    let speed = |s: &LoadSpeed| {
        json!({
            "recall": rounded(s.recall, 4), "reads": rounded(s.reads, 2),
            "mean_us": rounded(s.mean_us, 1), "qps": rounded(s.qps, 1),
        })
    };
    let (shape, e) = (&told.shape, told.errors);
    json!({
        "rows": shape.rows, "dim": shape.dim, "type": args.vector_type.name(),
        "code_bytes": shape.code_bytes, "records_per_page": shape.records_per_page,
        "page_bytes": shape.page_bytes, "pages": shape.pages,
        "memory_floor_bytes": told.memory.floor, "memory_bytes": told.memory.total,
        "resident": rounded(told.resident, 4), "list": told.list,
        "disk_bytes": told.build.disk_bytes,
        "build": {
            "cpu_s": rounded(told.build.cpu_seconds, 1),
            "wall_s": rounded(told.build.cpu_seconds / args.threads() as f64, 1),
            "peak_memory_bytes": told.build.peak_memory_bytes,
        },
        "idle": speed(&told.idle), "busy": speed(&told.busy),
        "errors": {
            "recall": e.recall, "reads": e.reads, "qps": e.qps, "latency": e.latency,
        },
    })
}
