//! One measured search: a batch of queries with one list length, and all figures of it.
//! `search`, `bench` and `demo` share this.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pipeann_engine::index::{Answer, BatchOptions, Index};
use pipeann_engine::search::{Policy, SearchParams, SearchStats};
use pipeann_engine::types::VectorSet;
use serde_json::{Map, Value, json};

use crate::measure::{CpuTime, Latency, median_index, peak_rss_bytes, rounded};
use crate::opening::devices_json;
use crate::table::Table;
use crate::truth::Truth;

/// What stays the same from list to list.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Name shown with the figures.
    pub name: String,
    /// Name of the policy.
    pub policy_name: String,
    /// The policy.
    pub policy: Policy,
    /// Results for each query.
    pub k: usize,
    /// Threads.
    pub threads: usize,
    /// Queries in flight on each.
    pub in_flight: usize,
    /// How often to measure; the run with the median rate is reported.
    pub repeat: usize,
}

/// The figures of one run. Counts are means over the queries.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Length of the candidate list.
    pub list: usize,
    /// Queries answered.
    pub queries: usize,
    /// Against exact truth, where there is any.
    pub recall: Option<f64>,
    /// Time by the clock.
    pub wall_s: f64,
    /// Of single queries.
    pub latency: Latency,
    /// Processor time of the process.
    pub cpu: CpuTime,
    /// Sums over the queries; the width is the widest of any.
    stats: SearchStats,
}

/// Queries searched before the clock starts, so that threads' queues and buffers exist.
const WARM_UP: usize = 64;
/// Lengths of the candidate list: those that are asked for, else of the `usual` ones those that `k` results fit
/// into.
pub fn lists(asked: &[usize], usual: &[usize], k: usize) -> Vec<usize> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let fitting: Vec<usize> = usual.iter().copied().filter(|list| *list >= k).collect();
    if fitting.is_empty() { vec![k, k.saturating_mul(2)] } else { fitting }
}

/// How long a measurement waits for pages that are read ahead of searches.
pub const WARMING_AT_MOST: Duration = Duration::from_secs(600);

fn how(list: usize, settings: &RunSettings) -> (SearchParams, BatchOptions) {
    let RunSettings { k, threads, in_flight, .. } = *settings;
    let policy = settings.policy.clone();
    let params = SearchParams { k, list, policy, ..SearchParams::default() };
    (params, BatchOptions { threads, in_flight, allow: None })
}

/// Searches queries that are not measured.
///
/// # Errors
/// As [`measure`].
pub fn warm_up(
    index: &Index,
    queries: VectorSet<'_>,
    list: usize,
    settings: &RunSettings,
) -> Result<()> {
    let (params, batch) = how(list, settings);
    index.wait_resident()?;
    search(index, queries, &params, &batch)?;
    Ok(())
}

/// Searches on threads of their own, also where it is one: the backend may want them on certain
/// processors, and this thread goes on to other things.
fn search(
    index: &Index,
    queries: VectorSet<'_>,
    params: &SearchParams,
    batch: &BatchOptions,
) -> Result<Vec<Answer>> {
    if batch.threads != 1 {
        return Ok(index.search_batch(queries, params, batch)?);
    }
    let work = || {
        index.backend().enter_search_thread();
        index.search_batch(queries, params, batch)
    };
    let found = std::thread::scope(|scope| scope.spawn(work).join());
    Ok(found.expect("a search thread does not panic")?)
}

/// Searches all queries with one list length. Returns the figures and the answers.
///
/// # Errors
/// Whatever the search refuses or fails at.
pub fn measure(
    index: &Index,
    queries: VectorSet<'_>,
    truth: Option<&Truth>,
    list: usize,
    settings: &RunSettings,
) -> Result<(Figures, Vec<Answer>)> {
    let (params, batch) = how(list, settings);
    index.wait_resident()?;
    // Where that takes longer, what is measured stands beside it; `warming` says so.
    index.wait_warm(WARMING_AT_MOST);
    let warm_up = queries.rows().min(WARM_UP) * queries.row_bytes();
    let warm_up = VectorSet::new(&queries.bytes()[..warm_up], queries.dim(), queries.vector_type())
        .context("the first queries")?;
    search(index, warm_up, &params, &batch)?;
    let mut runs = Vec::new();
    for _ in 0..settings.repeat.max(1) {
        let cpu = CpuTime::now();
        let started = Instant::now();
        let answers = search(index, queries, &params, &batch)?;
        let wall_s = started.elapsed().as_secs_f64();
        let cpu = CpuTime::now().since(cpu);
        runs.push((figures(list, wall_s, cpu, &answers), answers));
    }
    let median = median_index(&runs.iter().map(|(f, _)| f.wall_s).collect::<Vec<_>>());
    let (mut figures, answers) = runs.swap_remove(median);
    figures.recall = truth.map(|truth| {
        let answers: Vec<Vec<(u64, f32)>> = answers
            .iter()
            .map(|a| a.hits.iter().map(|h| (h.row.0, h.distance)).collect())
            .collect();
        truth.recall(settings.k, &answers)
    });
    Ok((figures, answers))
}

fn figures(list: usize, wall_s: f64, cpu: CpuTime, answers: &[Answer]) -> Figures {
    let mut stats = SearchStats::default();
    answers.iter().for_each(|a| stats += a.stats);
    let mut times: Vec<u64> = answers.iter().map(|a| a.stats.latency_ns).collect();
    let latency = Latency::of(&mut times);
    Figures { list, queries: answers.len(), recall: None, wall_s, latency, cpu, stats }
}

impl Figures {
    fn per_query(&self, sum: u64) -> f64 {
        sum as f64 / self.queries as f64
    }

    /// Queries answered in a second.
    pub fn qps(&self) -> f64 {
        self.queries as f64 / self.wall_s
    }

    /// Mean page reads for a query.
    pub fn reads(&self) -> f64 {
        self.per_query(self.stats.reads)
    }

    /// The share of the pages used that was in memory.
    fn share_from_memory(&self) -> f64 {
        let uses = self.stats.resident_pages + self.stats.reads;
        self.stats.resident_pages as f64 / uses.max(1) as f64
    }

    /// Process CPU for a query, user and kernel, microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.cpu.total_us() / self.queries as f64
    }

    /// Reads that reached the device in a second: those shared between queries count once.
    fn reads_per_s(&self) -> f64 {
        (self.stats.reads - self.stats.reads_shared.min(self.stats.reads)) as f64 / self.wall_s
    }

    /// All figures under the names that scripts know.
    pub fn json(&self, index: &Index, settings: &RunSettings) -> Value {
        let s = &self.stats;
        let mean = |sum: u64| rounded(self.per_query(sum), 3);
        let micros = |us: f64| rounded(us, 2);
        let (n, pages) = (self.queries as f64, index.page_stats());
        let pools: Map<String, Value> =
            index.pools().map(|(pool, bytes)| (pool.name().to_owned(), bytes.into())).collect();
        json!({
            "run": settings.name, "policy": settings.policy_name, "list": self.list, "k": settings.k,
            "threads": settings.threads, "in_flight": settings.in_flight,
            "recall": self.recall.map(|r| rounded(r, 5)),
            "queries": self.queries, "qps": rounded(self.qps(), 1),
            "mean_us": micros(self.latency.mean_us), "p50_us": micros(self.latency.p50_us),
            "p99_us": micros(self.latency.p99_us),
            "reads": mean(s.reads), "reads_wasted": mean(s.reads_wasted),
            "reads_shared": mean(s.reads_shared), "resident_pages": mean(s.resident_pages),
            "from_memory": rounded(self.share_from_memory(), 4),
            "pages_in_memory": pages.resident, "pages_displaced": pages.displaced,
            "pages_warmed": pages.warmed, "warming": pages.warming,
            "bytes_read": mean(s.bytes_read), "hops": mean(s.hops),
            "code_distances": mean(s.code_distances), "exact_distances": mean(s.exact_distances),
            "width_max": s.width_max,
            "cpu_us": micros(self.cpu_us()), "user_us": micros(self.cpu.user_us / n),
            "sys_us": micros(self.cpu.sys_us / n),
            "compute_us": micros(self.per_query(s.compute_ns) / 1e3),
            "wait_us": micros(self.per_query(s.wait_ns()) / 1e3),
            "reads_per_s": rounded(self.reads_per_s(), 1),
            "peak_rss_bytes": peak_rss_bytes(), "pools": pools,
            "devices": devices_json(index.backend().as_ref()),
            "backend": index.backend().name(), "page_bytes": index.layout().page_bytes(),
        })
    }

    /// The columns of [`cells`](Self::cells).
    pub fn table<'n>(names: impl Iterator<Item = &'n str>) -> Table {
        Table::new(&[
            "policy",
            "list",
            "recall",
            "QPS",
            "mean us",
            "p99 us",
            "reads",
            "wasted",
            "in memory",
            "KiB read",
            "CPU us",
            "reads/s",
        ])
        .first_column(names)
    }

    /// A line of the table.
    pub fn cells(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            self.list.to_string(),
            self.recall.map_or("-".into(), |r| format!("{r:.4}")),
            format!("{:.0}", self.qps()),
            format!("{:.0}", self.latency.mean_us),
            format!("{:.0}", self.latency.p99_us),
            format!("{:.1}", self.reads()),
            format!("{:.1}", self.per_query(self.stats.reads_wasted)),
            format!("{:.0} %", 100.0 * self.share_from_memory()),
            format!("{:.0}", self.per_query(self.stats.bytes_read) / 1024.0),
            format!("{:.0}", self.cpu_us()),
            format!("{:.0}", self.reads_per_s()),
        ]
    }
}

/// The first `n` queries, and the others.
///
/// # Errors
/// There are fewer.
pub fn split(queries: VectorSet<'_>, n: usize) -> Result<(VectorSet<'_>, VectorSet<'_>)> {
    let (first, others) = queries.bytes().split_at(n * queries.row_bytes());
    let part = |bytes| {
        VectorSet::new(bytes, queries.dim(), queries.vector_type()).context("a part of the queries")
    };
    Ok((part(first)?, part(others)?))
}

/// Threads meant by an option where 0 stands for all cores.
pub fn threads(option: usize) -> usize {
    match option {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}
