//! Rounds of queries on a collection, timed, and compared with what should be found.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pipeann_cli::measure::{
    CpuTime, Latency, median_index, peak_rss_bytes, rounded, storage_read_bytes,
};
use pipeann_cli::searching::WARMING_AT_MOST;
use pipeann_cli::truth::Compared;
use pipeann_db::collection::{Collection, Filter, SearchCosts, SearchRequest};
use pipeann_engine::types::Metric;
use serde_json::{Value, json};

use super::asked::QuerySet;
use super::opening::{key, one};

/// Queries searched before the clock starts. They are the last ones, so that what is kept of
/// their filters does not help the first.
const WARM_UP: usize = 64;
/// Bytes in which reads from storage are counted.
const PAGE_BYTES: f64 = 4096.0;

/// What [`RoundFigures::cells`] are.
pub(super) const TITLES: [&str; 7] =
    ["list", "recall", "wrong", "qps", "mean_us", "p99_us", "reads"];

/// Queries asked of a collection in one way.
pub(super) struct QueryLoad<'a> {
    pub(super) rows: &'a Collection,
    pub(super) asked: &'a QuerySet,
    /// The vector field.
    pub(super) field: &'a str,
    pub(super) k: usize,
    pub(super) metric: Option<Metric>,
    /// Length of the candidate list, unless what a search takes that names none.
    pub(super) list: Option<usize>,
    /// Makes each filter one that was not asked before, where that is wanted.
    pub(super) unseen: Option<&'a Unseen>,
}

/// Filters written in ways that did not occur before: what a collection keeps is found by the text
/// of a filter, so nothing that is kept helps one whose white space is new.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    written: AtomicU64,
}

impl Unseen {
    /// The filter, with white space behind it that spells how many were written before.
    pub(super) fn write(&self, filter: &str) -> String {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let digits = format!("{number:b}");
        let blanks = digits.bytes().map(|digit| if digit == b'0' { ' ' } else { '\t' });
        filter.chars().chain(blanks).collect()
    }
}

/// The answer to one query: keys and distances, and how long it took.
struct TimedAnswer {
    query: usize,
    hits: Vec<(u64, f32)>,
    time_ns: u64,
    costs: SearchCosts,
}

/// The answers of one round, and its figures.
pub(super) struct RoundFigures {
    /// Keys and distances, query after query.
    pub(super) answers: Vec<Vec<(u64, f32)>>,
    list: Option<usize>,
    k: usize,
    queries: usize,
    found: Option<Compared>,
    wall_s: f64,
    latency: Latency,
    cpu: CpuTime,
    read_bytes: u64,
    costs: Vec<SearchCosts>,
}

impl QueryLoad<'_> {
    /// The round with the median rate; where the first one has not the recall that is asked for, that.
    pub(super) fn measure(
        &self,
        threads: usize,
        rounds: usize,
        recall: Option<f64>,
    ) -> Result<RoundFigures> {
        let queries = self.asked.queries().rows();
        self.wait_warm();
        self.pass(threads, queries.saturating_sub(WARM_UP)..queries)?;
        let first = self.round(threads)?;
        if recall.is_some_and(|recall| !first.has(recall)) {
            return Ok(first);
        }
        let others = (1..rounds).map(|_| self.round(threads));
        let mut rounds = [Ok(first)].into_iter().chain(others).collect::<Result<Vec<_>>>()?;
        let walls: Vec<f64> = rounds.iter().map(|round| round.wall_s).collect();
        Ok(rounds.swap_remove(median_index(&walls)))
    }

    /// Waits until no page of the graph is being read ahead of searches, or for a long time.
    fn wait_warm(&self) {
        let until = Instant::now() + WARMING_AT_MOST;
        let warming = || self.rows.page_stats(self.field).is_some_and(|pages| pages.warming);
        while warming() && Instant::now() < until {
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    fn round(&self, threads: usize) -> Result<RoundFigures> {
        let queries = self.asked.queries().rows();
        let (cpu, read, begun) = (CpuTime::now(), storage_read_bytes(), Instant::now());
        let mut answers = self.pass(threads, 0..queries)?;
        let wall_s = begun.elapsed().as_secs_f64();
        let (cpu, read_after) = (CpuTime::now().since(cpu), storage_read_bytes());
        let mut times: Vec<u64> = answers.iter().map(|answer| answer.time_ns).collect();
        let costs = answers.iter().map(|answer| answer.costs).collect();
        answers.sort_by_key(|answer| answer.query);
        let hits: Vec<_> = answers.into_iter().map(|answer| answer.hits).collect();
        Ok(RoundFigures {
            list: self.list,
            k: self.k,
            queries,
            found: self.asked.truth().map(|truth| truth.found(self.k, &hits)),
            wall_s,
            latency: Latency::of(&mut times),
            cpu,
            answers: hits,
            costs,
            read_bytes: read_after.zip(read).map_or(0, |(after, before)| after - before),
        })
    }

    /// Asks these queries, each thread the next one that is left.
    fn pass(&self, threads: usize, queries: std::ops::Range<usize>) -> Result<Vec<TimedAnswer>> {
        let next = AtomicUsize::new(queries.start);
        let share = || -> Result<Vec<TimedAnswer>> {
            let left = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&q| q < queries.end);
            std::iter::from_fn(left).map(|query| self.ask(query)).collect()
        };
        std::thread::scope(|scope| {
            let shares: Vec<_> = (0..threads).map(|_| scope.spawn(share)).collect();
            let mut answers = Vec::new();
            for share in shares {
                answers.extend(share.join().expect("no search panics")?);
            }
            Ok(answers)
        })
    }

    fn ask(&self, query: usize) -> Result<TimedAnswer> {
        let written = self.asked.filter(query).map(|filter| {
            self.unseen.map_or(Cow::Borrowed(filter), |unseen| unseen.write(filter).into())
        });
        let vector = one(self.asked.queries(), query);
        let search = SearchRequest {
            metric: self.metric,
            list: self.list,
            filter: written.as_deref().map(Filter::new),
            ..SearchRequest::new(self.field, vector, self.k)
        };
        let begun = Instant::now();
        let found = self.rows.search(&search);
        let found = found.with_context(|| format!("query {query}"))?;
        let time_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let hits = found.hits.into_iter().flatten();
        let hits = hits.map(|hit| (key(&hit).unsigned_abs(), hit.distance)).collect();
        Ok(TimedAnswer { query, hits, time_ns, costs: found.costs })
    }
}

impl RoundFigures {
    /// Whether the recall is known and not below this.
    pub(super) fn has(&self, recall: f64) -> bool {
        self.found.is_some_and(|found| found.recall() >= recall)
    }

    fn qps(&self) -> f64 {
        self.queries as f64 / self.wall_s
    }

    fn reads(&self) -> f64 {
        self.read_bytes as f64 / PAGE_BYTES / self.queries as f64
    }

    /// All figures under the names that scripts know.
    pub(super) fn json(&self) -> Value {
        let micros = |us: f64| rounded(us, 1);
        let sum = |of: fn(&SearchCosts) -> u64| self.costs.iter().map(of).sum::<u64>();
        let mean = |of| rounded(sum(of) as f64 / self.queries as f64, 2);
        json!({
            "list": self.list, "k": self.k, "queries": self.queries,
            "recall": self.found.map(|found| rounded(found.recall(), 5)),
            "expected": self.found.map(|found| found.expected),
            "wrong": self.found.map(|found| found.wrong), "qps": rounded(self.qps(), 1),
            "mean_us": micros(self.latency.mean_us), "p50_us": micros(self.latency.p50_us),
            "p99_us": micros(self.latency.p99_us), "reads": rounded(self.reads(), 2),
            "cpu_us": micros(self.cpu.total_us() / self.queries as f64),
            "peak_rss_bytes": peak_rss_bytes(),
            "walked": sum(|c| c.walked), "ranked": sum(|c| c.ranked),
            "changed": sum(|c| c.changed), "compared": sum(|c| c.compared),
            "graph_reads": mean(|c| c.pages_read), "code_distances": mean(|c| c.code_distances),
            "exact_distances": mean(|c| c.exact_distances),
        })
    }

    /// Those that people read, under [`TITLES`].
    pub(super) fn cells(&self) -> [String; 7] {
        [
            self.list.map_or_else(|| "default".to_owned(), |list| list.to_string()),
            self.found.map_or_else(|| "-".to_owned(), |found| format!("{:.4}", found.recall())),
            self.found.map_or_else(|| "-".to_owned(), |found| found.wrong.to_string()),
            format!("{:.0}", self.qps()),
            format!("{:.0}", self.latency.mean_us),
            format!("{:.0}", self.latency.p99_us),
            format!("{:.1}", self.reads()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Unseen;

    #[test]
    fn no_filter_is_written_twice_in_the_same_way_and_all_mean_the_same() {
        let unseen = Unseen::default();
        let written: BTreeSet<_> = (0..1000).map(|_| unseen.write("a == 1")).collect();
        assert_eq!(written.len(), 1000);
        assert!(written.iter().all(|filter| filter.trim_end() == "a == 1"));
    }
}
