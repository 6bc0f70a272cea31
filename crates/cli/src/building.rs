//! One build, from a vector file to an index with its cost. `build`, `bench` and `demo` share
//! this: the estimate before, progress meanwhile, the figures after. `import-diskann` has the same
//! without an estimate.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Result, anyhow};
use indicatif::ProgressBar;
use pipeann_engine::build::{
    self, BuildError, BuildOptions, BuildReport, DiskannIndex, Progress, Stage, StandingFiles,
    StandingGraph,
};
use pipeann_engine::format::Manifest;
use pipeann_engine::types::{Metric, VectorType};
use pipeann_server::interrupt::Interrupted;
use serde_json::{Map, Value, json};

use crate::measure::{CpuTime, peak_rss_bytes, rounded, seconds};
use crate::progress;
use crate::table::{bytes, count, duration};
use crate::vectors_file::VectorsFile;

/// A finished build.
pub struct Built {
    report: BuildReport,
    dim: usize,
    vector_type: &'static str,
    metric: &'static str,
    wall_s: f64,
    cpu_s: f64,
    peak_rss_bytes: Option<u64>,
}

/// Builds an index of `base` in `dir`, within `limit` bytes of memory where there is one; the
/// estimate goes to standard error first.
///
/// # Errors
/// [`Interrupted`] where `cancel` was raised, else whatever keeps the build from finishing. The
/// directory is as it was before, then.
pub fn build_index(
    base: &VectorsFile,
    dir: &Path,
    options: &BuildOptions,
    limit: Option<u64>,
    cancel: &AtomicBool,
) -> Result<Built> {
    let (rows, dim, ty) = (base.rows() as u64, base.dim(), base.vector_type());
    let threads = crate::searching::threads(options.graph.threads);
    let estimate = build::estimate(rows, dim, ty, options).map_err(explain)?;
    eprintln!(
        "building {} x {dim} {ty} ({}, R={}, L={}): about {} on {threads} threads, {} of memory{}, \
         {} on disk",
        count(rows),
        options.metric,
        options.graph.degree,
        options.graph.list,
        duration(estimate.cpu_seconds / threads as f64),
        bytes(limit.map_or(estimate.peak_memory_bytes, |l| l.min(estimate.peak_memory_bytes))),
        if limit.is_none() { " beside the input" } else { " at most" },
        bytes(estimate.disk_bytes),
    );
    let source = limit.map(|_| base.source()).transpose()?;
    let shape = IndexShape { dim, ty, metric: options.metric };
    measured(shape, |bars| match (limit, &source) {
        (Some(limit), Some(source)) => {
            build::build_limited(&**source, limit, dir, options, bars, cancel)
        }
        _ => build::build(base.set(), dir, options, bars, cancel),
    })
}

/// Makes an index in `dir` of one that DiskANN has built.
///
/// # Errors
/// As [`build_index`].
pub fn import_index(
    index: &DiskannIndex,
    dir: &Path,
    options: &BuildOptions,
    cancel: &AtomicBool,
) -> Result<Built> {
    let shape = IndexShape { dim: index.dim(), ty: index.vector_type(), metric: index.metric() };
    measured(shape, |bars| build::import_diskann(index, dir, options, bars, cancel))
}

/// Makes an index in `dir` of the graph of another, in the partitions of `options`.
///
/// # Errors
/// As [`build_index`].
pub fn repartition_index(
    graph: StandingGraph,
    dir: &Path,
    options: &BuildOptions,
    cancel: &AtomicBool,
) -> Result<Built> {
    let shape = IndexShape::of(&graph.manifest);
    measured(shape, |bars| build::repartition(graph, dir, options, bars, cancel))
}

/// As [`repartition_index`], of a graph in files and within `limit` bytes of memory.
///
/// # Errors
/// As [`build_index`].
pub fn repartition_files(
    graph: &StandingFiles,
    limit: u64,
    dir: &Path,
    options: &BuildOptions,
    cancel: &AtomicBool,
) -> Result<Built> {
    let shape = IndexShape::of(graph.manifest());
    measured(shape, |bars| build::repartition_limited(graph, limit, dir, options, bars, cancel))
}

/// What vectors an index is of, and how they are compared.
struct IndexShape {
    dim: usize,
    ty: VectorType,
    metric: Metric,
}

impl IndexShape {
    fn of(manifest: &Manifest) -> Self {
        let layout = &manifest.layout;
        Self { dim: layout.dim(), ty: layout.vector_type(), metric: manifest.metric }
    }
}

/// Runs a build with a progress bar, and takes its cost.
fn measured(
    IndexShape { dim, ty, metric }: IndexShape,
    work: impl FnOnce(&dyn Progress) -> Result<BuildReport, BuildError>,
) -> Result<Built> {
    let cpu = CpuTime::now();
    let started = Instant::now();
    let report = quietly(work)?;
    Ok(Built {
        report,
        dim,
        vector_type: ty.name(),
        metric: metric.name(),
        wall_s: seconds(started.elapsed()),
        cpu_s: rounded(CpuTime::now().since(cpu).total_us() / 1e6, 3),
        peak_rss_bytes: peak_rss_bytes(),
    })
}

/// Runs a build with a progress bar, whatever it costs.
pub fn quietly(
    work: impl FnOnce(&dyn Progress) -> Result<BuildReport, BuildError>,
) -> Result<BuildReport> {
    let bars = Bars { bar: Mutex::new(ProgressBar::hidden()) };
    let report = work(&bars);
    bars.current().finish_and_clear();
    report.map_err(explain)
}

/// What a command says of a build that was not made.
pub(crate) fn explain(error: BuildError) -> anyhow::Error {
    match error {
        BuildError::Cancelled(_) => Interrupted.into(),
        BuildError::MemoryLimit { limit, needed } => anyhow!(
            "--memory {} is too small for this build, which needs {}",
            bytes(limit),
            bytes(needed.next_multiple_of(1 << 20))
        ),
        BuildError::SearchMemory { limit, needed } => anyhow!(
            "--search-memory {} is too little for searches of this index, which need {} MiB even with \
             the shortest codes",
            bytes(limit),
            needed.div_ceil(1 << 20)
        ),
        e @ BuildError::Exists { .. } => anyhow!("{e}; --overwrite replaces it"),
        e => e.into(),
    }
}

impl Built {
    /// The result under the names that scripts know.
    pub fn json(&self) -> Value {
        let r = &self.report;
        let stages: Map<String, Value> =
            r.stages.iter().map(|(s, t)| (s.name().to_owned(), seconds(*t).into())).collect();
        json!({
            "rows": r.rows, "dim": self.dim, "type": self.vector_type, "metric": self.metric,
            "cpu_s": self.cpu_s, "wall_s": self.wall_s, "peak_rss_bytes": self.peak_rss_bytes,
            "disk_bytes": r.disk_bytes, "stages": stages, "pages": r.pages,
            "page_bytes": r.page_bytes, "records_per_page": r.records_per_page,
            "mean_degree": rounded(r.mean_degree, 3),
            "edges_in_page": rounded(r.locality.edges_in_page, 3),
            "nearest_in_page": rounded(r.locality.nearest_in_page, 4),
        })
    }

    /// The result for people.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let r = &self.report;
        let peak = self.peak_rss_bytes.map_or("unknown".into(), bytes);
        let stages: Vec<String> = r
            .stages
            .iter()
            .map(|(stage, time)| format!("{} {}", stage.name(), duration(time.as_secs_f64())))
            .collect();
        vec![
            ("vectors", format!("{} x {} {}", count(r.rows), self.dim, self.vector_type)),
            ("metric", self.metric.to_owned()),
            ("time", format!("{} (CPU {})", duration(self.wall_s), duration(self.cpu_s))),
            ("stages", stages.join(", ")),
            ("peak memory", format!("{peak}, the mapped input included")),
            ("on disk", bytes(r.disk_bytes)),
            (
                "pages",
                format!(
                    "{} of {} bytes, {} records each",
                    count(r.pages),
                    r.page_bytes,
                    r.records_per_page
                ),
            ),
            (
                "mean degree",
                format!(
                    "{:.1}, of which {:.1} within the page",
                    r.mean_degree, r.locality.edges_in_page
                ),
            ),
        ]
    }
}

/// A progress bar for the stage under way.
struct Bars {
    bar: Mutex<ProgressBar>,
}

impl Bars {
    fn current(&self) -> ProgressBar {
        self.bar.lock().expect("no holder of this lock panics").clone()
    }
}

impl Progress for Bars {
    fn stage(&self, stage: Stage, total: u64) {
        let unit = if stage == Stage::Write { "bytes" } else { "rows" };
        let next = progress::bar(stage.name(), total, unit);
        let mut bar = self.bar.lock().expect("no holder of this lock panics");
        std::mem::replace(&mut *bar, next).finish_and_clear();
    }

    fn advance(&self, n: u64) {
        self.current().inc(n);
    }
}
