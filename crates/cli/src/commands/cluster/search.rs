//! `pipeann cluster search`: asks a cluster, and measures it.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use pipeann_cluster::relay::{AskerSettings, Ended, Query};
use pipeann_cluster::transport::tcp::{Identity, Limits, Settings};
use pipeann_cluster::walker::{Asked, ReadPolicy, Spent};
use pipeann_cluster::wire::{Hits, PeerId};
use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::{VectorSet, VectorType};
use pipeann_server::joining::Joining;
use serde_json::json;

use super::answers::QueryAnswers;
use super::modes::{Choosing, ModeClient, Steps, Together};
use super::times::{LateBegins, part_us};
use crate::columns::FilterArgs;
use crate::measure::{Latency, rounded};
use crate::searching::{lists, split};
use crate::table::{Table, print_json, print_line};
use crate::truth::Truth;
use crate::vectors_file::VectorsFile;

/// How long servers are dialled before it is told that they are not there.
const MEETING: Duration = Duration::from_secs(10);
/// How often a state may go from one server to another.
const HOPS: u16 = 1000;
/// Lengths of the candidate list that are asked with where none are named and `--k` is not longer.
const USUAL_LISTS: [usize; 2] = [20, 40];

/// Search over the servers of a cluster, and measure recall, latency, throughput, reads and hops
#[derive(Debug, Args)]
pub(crate) struct ClusterSearchArgs {
    #[command(flatten)]
    pub(crate) joining: Joining,
    /// Queries: .fbin, .f16bin, .bf16bin, .u8bin, .i8bin, .bbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    #[command(flatten)]
    pub(crate) how: How,
    /// Print one JSON object for each list
    #[arg(long)]
    json: bool,
    /// With --json, also tell the rows and distances that each query found, and the pages it read
    #[arg(long, requires = "json")]
    hits: bool,
}

/// What is asked.
#[derive(Clone, Debug, Args)]
pub(crate) struct How {
    /// Exact truth of these queries, as `pipeann gt` writes it, or .ivecs
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Results for each query
    #[arg(long, default_value_t = 10)]
    k: u32,
    /// Lengths of the candidate list: longer finds more and reads more
    /// [default: those of 20,40 that --k results fit into]
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    list: Vec<u32>,
    /// Reads in flight for each query; with --mode distributed-ann, nodes expanded in a step
    /// [default: 2, and 64 with --mode baton]
    #[arg(long, value_name = "READS")]
    width: Option<u16>,
    /// Nearest candidates that are looked through for one at the same server [default: a fifth of the
    /// list, and 8 at least; 4 for the nearest row alone; with --mode baton as many as --width]
    #[arg(long, value_name = "CANDIDATES")]
    ahead: Option<u16>,
    /// Take answers that lack the partitions of servers that are missing, and tell the coverage
    #[arg(long)]
    partial: bool,
    /// Answer with rows at these distances only: from NEAR on, and nearer than FAR; either may be left
    /// out. --k is but a limit then, and --list has to be as long only as there are candidates
    #[arg(long, value_name = "NEAR,FAR", value_parser = within, allow_hyphen_values = true)]
    within: Option<DistanceRange>,
    /// How servers work together
    #[arg(long, value_enum, default_value_t = Together::Relay)]
    mode: Together,
    #[command(flatten)]
    choosing: Choosing,
    /// Queries under way at once
    #[arg(long, value_name = "QUERIES", default_value_t = 8)]
    in_flight: usize,
    /// Ask so many queries a second, whether earlier ones were answered or not, as long as
    /// --in-flight allows; a query's time counts from when it was due [default: as fast as answers
    /// come]
    #[arg(long, value_name = "QUERIES")]
    rate: Option<f64>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Search the first queries before, unmeasured, and measure the others
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm: usize,
    /// Time that a query has, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    deadline_ms: u64,
    /// Use only the first queries
    #[arg(long, value_name = "N")]
    limit_queries: Option<usize>,
}

/// A range of distances, as `NEAR,FAR`.
fn within(text: &str) -> Result<DistanceRange, String> {
    let ends = text.split_once(',').ok_or("expected NEAR,FAR, either of which may be empty")?;
    let end = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse::<f32>().map(Some).map_err(|e| format!("{text}: {e}")),
    };
    Ok(DistanceRange {
        from: end(ends.0)?.map_or(Bound::Unbounded, Bound::Included),
        to: end(ends.1)?.map_or(Bound::Unbounded, Bound::Excluded),
    })
}

/// What a batch of queries gave.
pub(crate) struct ClusterSearched {
    list: u32,
    wall: Duration,
    latency: Latency,
    /// Between these lies the half of all times that is left when the least and the most are taken off.
    quarters_us: [f64; 2],
    late: LateBegins,
    recall: Option<f64>,
    answers: QueryAnswers,
    spent: Vec<Spent>,
    /// Messages, and times that who asks waited for servers, of all queries.
    sent: (u64, u64),
    failed: usize,
    /// Partitions that answers lack, in share of all: the mean, and which.
    lacking: f64,
    missing: BTreeSet<u32>,
    /// The query that went farthest, with the servers that it was at.
    pub(crate) farthest: Option<(usize, Vec<u32>, Spent)>,
}

/// Runs the command.
pub(crate) fn run(args: &ClusterSearchArgs) -> Result<()> {
    let table = Table::new(&COLUMNS);
    if !args.json {
        print_line(&table.header())?;
    }
    search(&args.joining, &args.queries, &args.how, |searched| {
        if args.json {
            print_json(&searched.json(args.hits))
        } else {
            print_line(&table.line(&searched.cells()))
        }
    })
}

/// Asks all that is to be asked, and tells each list's outcome.
pub(crate) fn search(
    joining: &Joining,
    queries: &Path,
    how: &How,
    mut tell: impl FnMut(&ClusterSearched) -> Result<()>,
) -> Result<()> {
    ensure!(how.in_flight > 0, "--in-flight is 0, but must be at least 1");
    how.choosing.check(how.mode)?;
    how.check_partial()?;
    ensure!(how.rate.is_none_or(|rate| rate > 0.0), "--rate must be above 0");
    let file = VectorsFile::open(queries)?;
    let queries = file.first(how.limit_queries.unwrap_or(usize::MAX));
    ensure!(queries.rows() > 0, "there are no queries");
    let truth = how
        .truth
        .as_ref()
        .map(|path| Truth::of_first(path, file.rows(), queries.rows(), how.k as usize));
    let mut truth = truth.transpose()?;
    ensure!(how.warm < queries.rows(), "--warm leaves no query to be measured");
    if let Some(truth) = &mut truth {
        truth.skip(how.warm);
    }
    let mut filters = how.filter.of_each(queries.rows())?.unwrap_or_default();
    let measured = filters.split_off(how.warm.min(filters.len()));
    let (warm, queries) = split(queries, how.warm)?;
    let (warm, asked) = (QueryBatch(warm, &filters), QueryBatch(queries, &measured));
    let placement = joining.placement()?;
    let servers = placement.servers().len();
    let seed = drawn();
    let me = PeerId::Client(seed);
    let network = Settings {
        me,
        placement,
        identity: Identity::default(),
        slots: 0,
        tls: joining.tls()?,
        limits: Limits::default(),
        seed,
    };
    let settings = AskerSettings {
        me,
        attempt_us: how.deadline_ms.saturating_mul(1000) / 3,
        attempts: 3,
        // One that is scattered asks every server.
        waiting: how.in_flight.saturating_mul(servers),
    };
    let client = ModeClient::open(network, settings, how.mode, &how.choosing)?;
    if !client.meet(servers, MEETING) {
        let (missing, in_vain) = client.missing_in_words();
        let told = match in_vain {
            true => format!("cannot be asked: {missing}"),
            false => format!("did not answer within {} s: {missing}", MEETING.as_secs()),
        };
        ensure!(
            how.partial && client.missing().len() < servers,
            "of the {servers} servers of the topology these {told}"
        );
        eprintln!("pipeann: servers that {told}");
    }
    for list in how.lists() {
        how.ask(&client, warm, list);
        tell(&how.batch(&client, asked, list, truth.as_ref())?)?;
    }
    Ok(())
}

/// A number that nobody else has: those of processes are the same in many containers.
pub(super) fn drawn() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

/// How a query ended.
struct QueryOutcome {
    /// Its row among the queries.
    row: usize,
    /// Time from when it was due, nanoseconds.
    took_ns: u64,
    /// Time from when it was due until somebody asked it.
    late: Duration,
    ended: Ended,
}

/// Queries, and the filter of each where there are filters.
#[derive(Clone, Copy)]
struct QueryBatch<'q>(VectorSet<'q>, &'q [Vec<u8>]);

impl How {
    /// Lengths of the candidate list that are asked with.
    fn lists(&self) -> Vec<u32> {
        if !self.list.is_empty() {
            return self.list.clone();
        }
        let k = match self.within {
            // Then it is but a limit.
            Some(_) => 1,
            None => self.choosing.each.unwrap_or(self.k),
        };
        let fitting = lists(&[], &USUAL_LISTS, k as usize);
        fitting.into_iter().map(|list| u32::try_from(list).unwrap_or(u32::MAX)).collect()
    }

    /// Whether what is asked for beside rows is of use in the mode.
    fn check_partial(&self) -> Result<()> {
        if self.mode == Together::DistributedAnn {
            let none = "--mode distributed-ann takes no";
            ensure!(self.filter.is_empty(), "{none} filter: servers score, and do not choose");
            ensure!(self.within.is_none(), "{none} --within: servers score, and do not choose");
        }
        let parts = [Together::Relay, Together::Baton, Together::Scatter].contains(&self.mode);
        ensure!(!self.partial || parts, "--partial goes with --mode relay, baton or scatter");
        Ok(())
    }

    /// Asks queries; how long all took together, and how each ended, in their order.
    fn ask(
        &self,
        client: &ModeClient,
        asked: QueryBatch<'_>,
        list: u32,
    ) -> (Duration, Vec<QueryOutcome>) {
        let QueryBatch(queries, filters) = asked;
        let next = AtomicUsize::new(0);
        let ended: Mutex<Vec<QueryOutcome>> = Mutex::default();
        let started = Instant::now();
        let ask = || {
            loop {
                let row = next.fetch_add(1, Ordering::Relaxed);
                if row >= queries.rows() {
                    return;
                }
                // When it is due counts, whenever somebody has time for it.
                let from = match self.rate {
                    Some(rate) => started + Duration::from_secs_f64(row as f64 / rate),
                    None => Instant::now(),
                };
                let late = self.rate.map_or(Duration::ZERO, |_| from.elapsed());
                while let Some(early) = from.checked_duration_since(Instant::now()) {
                    std::thread::park_timeout(early);
                }
                let filter = filters.get(row).map_or(&[][..], Vec::as_slice);
                let vector = (queries.row(row), queries.vector_type());
                let outcome = self.one(client, vector, filter, list);
                let took_ns = u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX);
                let outcome = QueryOutcome { row, took_ns, late, ended: outcome };
                ended.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
            }
        };
        std::thread::scope(|scope| {
            (0..self.in_flight).for_each(|_| drop(scope.spawn(ask)));
        });
        let wall = started.elapsed();
        let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.sort_unstable_by_key(|outcome| outcome.row);
        (wall, ended)
    }

    /// Asks one query.
    fn one(
        &self,
        client: &ModeClient,
        (vector, ty): (&[u8], VectorType),
        filter: &[u8],
        list: u32,
    ) -> Ended {
        let baton = self.mode == Together::Baton;
        let k = self.choosing.each.unwrap_or(self.k);
        let policy = ReadPolicy { baton, width: self.width, ahead: self.ahead };
        let (width, ahead) = (policy.width(), policy.ahead(k, list));
        let within = self.within.unwrap_or_default();
        let round_robin = self.choosing.round_robin();
        let asked = Asked { k, list, width, ahead, baton, round_robin, ty, within };
        let query = Query {
            mode: self.mode.mode(self.choosing.by),
            parameters: asked.encode_among(filter),
            vector: vector.to_vec(),
            left_us: self.deadline_ms.saturating_mul(1000),
            hops: HOPS,
            at: None,
            partial: self.partial,
        };
        let steps = Steps { k: self.k, list, width };
        client.one(query, steps, ty, self.choosing.nearest)
    }

    fn batch(
        &self,
        client: &ModeClient,
        asked: QueryBatch<'_>,
        list: u32,
        truth: Option<&Truth>,
    ) -> Result<ClusterSearched> {
        let (wall, ended) = self.ask(client, asked, list);
        let mut times: Vec<u64> = ended.iter().map(|outcome| outcome.took_ns).collect();
        let late = LateBegins::of(ended.iter().map(|outcome| outcome.late));
        let (mut answers, mut spent, mut failed) = (Vec::new(), Vec::new(), 0);
        let mut farthest: Option<(usize, Vec<u32>, Spent)> = None;
        let (mut why, mut sent) = (None, (0, 0));
        let (mut lacking, mut missing) = (0, BTreeSet::new());
        let mut pages = Vec::new();
        for QueryOutcome { row, ended, .. } in ended {
            let Ok(found) = ended.map_err(|error| why = Some(error)) else {
                failed += 1;
                answers.push(Vec::new());
                pages.push(0);
                continue;
            };
            let hits = Hits::of(&found.hits).unwrap_or_default();
            answers.push(hits.iter().map(|hit| (hit.row, hit.distance)).collect());
            let cost = Spent::decode(&found.stats).unwrap_or_default();
            pages.push(u64::from(cost.reads) + u64::from(cost.from_memory));
            spent.push(cost);
            sent.0 += self.mode.messages(&found, &cost);
            sent.1 += u64::from(found.rounds);
            lacking += found.missing.len();
            missing.extend(found.missing);
            if farthest.as_ref().is_none_or(|(_, _, other)| other.moves < cost.moves) {
                farthest = Some((row, found.trace, cost));
            }
        }
        if let (true, Some(why)) = (spent.is_empty(), why) {
            return Err(anyhow::Error::new(why).context("no query was answered"));
        }
        let recall = truth.map(|truth| truth.recall(self.k as usize, &answers));
        let latency = Latency::of(&mut times);
        let answers = QueryAnswers { hits: answers, pages };
        let of = spent.len().max(1) * client.placement().partitions() as usize;
        let lacking = lacking as f64 / of as f64;
        let sums = ClusterSearched {
            list,
            wall,
            latency,
            quarters_us: [1, 3].map(|quarter| part_us(&times, quarter)),
            late,
            recall,
            answers,
            spent,
            sent,
            failed,
            lacking,
            missing,
            farthest,
        };
        Ok(sums)
    }
}

/// Of what [`ClusterSearched::cells`] gives.
pub(crate) const COLUMNS: [&str; 9] =
    ["list", "recall", "QPS", "mean us", "p99 us", "reads", "hops", "failed", "coverage"];

impl ClusterSearched {
    fn mean(&self, of: fn(&Spent) -> u32) -> f64 {
        let sum: u64 = self.spent.iter().map(|spent| u64::from(of(spent))).sum();
        self.each(sum)
    }

    fn each(&self, sum: u64) -> f64 {
        sum as f64 / self.spent.len().max(1) as f64
    }

    fn qps(&self) -> f64 {
        self.spent.len() as f64 / self.wall.as_secs_f64()
    }

    /// A line of the table.
    pub(crate) fn cells(&self) -> Vec<String> {
        vec![
            self.list.to_string(),
            self.recall.map_or("-".into(), |recall| format!("{recall:.4}")),
            format!("{:.0}", self.qps()),
            format!("{:.0}", self.latency.mean_us),
            format!("{:.0}", self.latency.p99_us),
            format!("{:.2}", self.mean(|s| s.reads.saturating_add(s.from_memory))),
            format!("{:.2}", self.mean(|s| s.moves)),
            self.failed.to_string(),
            format!("{:.3}", 1.0 - self.lacking),
        ]
    }

    fn json(&self, with_hits: bool) -> serde_json::Value {
        let [first, third] = self.quarters_us.map(|us| rounded(us, 1));
        let mut told = json!({
            "list": self.list, "recall": self.recall.map(|recall| rounded(recall, 5)),
            "queries": self.spent.len(), "failed": self.failed, "qps": rounded(self.qps(), 1),
            "mean_us": rounded(self.latency.mean_us, 1), "p99_us": rounded(self.latency.p99_us, 1),
            "reads": rounded(self.mean(|s| s.reads), 4),
            "from_memory": rounded(self.mean(|s| s.from_memory), 4),
            "hops": rounded(self.mean(|s| s.moves), 4),
            "messages": rounded(self.each(self.sent.0), 4),
            "rounds": rounded(self.each(self.sent.1), 4),
            "code_distances": rounded(self.mean(|s| s.codes), 2),
            "coverage": rounded(1.0 - self.lacking, 5), "missing": self.missing,
            "p25_us": first, "p50_us": rounded(self.latency.p50_us, 1), "p75_us": third,
            "late": self.late.queries, "late_mean_us": rounded(self.late.mean_us, 1),
        });
        if with_hits {
            self.answers.tell(&mut told);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// `search` as it is called.
    #[derive(Debug, clap::Parser)]
    struct Called {
        #[command(flatten)]
        how: How,
    }

    #[test]
    fn the_usual_lists_are_those_that_the_results_fit_into() {
        let lists = |line: &str| {
            let words = ["search"].into_iter().chain(line.split_whitespace());
            Called::try_parse_from(words).unwrap().how.lists()
        };
        assert_eq!(lists(""), [20, 40]);
        assert_eq!(lists("--k 25"), [40]);
        assert_eq!(lists("--k 50"), [50, 100]);
        assert_eq!(lists("--k 50 --list 20,30"), [20, 30], "as they are named");
        assert_eq!(lists("--k 50 --within ,9"), [20, 40]);
        assert_eq!(lists("--k 50 --mode scatter --each 25"), [40]);
    }

    #[test]
    fn clients_draw_numbers_that_are_not_their_processes() {
        assert_ne!(drawn(), drawn());
    }
}
