//! `pipeann collections search`: queries with filters or without, measured.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_db::collection::{Collection, Filter, VectorSearch};
use pipeann_db::database::Database;
use pipeann_engine::memory::Pool;
use serde_json::{Map, Value, json};

use super::asked::{Asked, AskedArgs};
use super::opening::{DatabaseArgs, collection, key, one};
use super::plans::Plans;
use crate::commands::search::threads;
use crate::measure::{CpuTime, Latency, median_index, peak_rss_bytes, rounded, storage_read_bytes};
use crate::table::{Table, print_json, print_line};
use crate::truth::Found;

/// Search a collection, and measure recall, throughput, latency, reads and processor time
///
/// One line for each list length. The last queries run unmeasured before each line. Recall counts
/// the rows found among those that should be: the k nearest that match, or all where fewer do.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Name of the collection
    #[arg(long, default_value = "rows")]
    collection: String,
    /// Name of the vector field
    #[arg(long, default_value = "v")]
    field: String,
    #[command(flatten)]
    asked: AskedArgs,
    /// Results for each query
    #[arg(long, default_value_t = 10)]
    k: usize,
    /// Lengths of the candidate list [default: what a search takes that names none]
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    list: Vec<usize>,
    /// End after the first list with this recall
    #[arg(long, value_name = "RECALL")]
    until: Option<f64>,
    /// Threads, each with one query in flight; 0 for one on each core
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Measure each list so many times and report the round with the median rate
    #[arg(long, value_name = "TIMES", default_value_t = 1)]
    rounds: usize,
    /// Afterwards tell how often which plan is chosen for the filters
    #[arg(long)]
    explain: bool,
    /// Print one JSON object for each list, and one for the plans
    #[arg(long)]
    json: bool,
}

/// Queries searched before the clock starts. They are the last ones, so that what is kept of
/// their filters does not help the first.
const WARM_UP: usize = 64;
/// Bytes in which reads from storage are counted.
const PAGE_BYTES: f64 = 4096.0;

/// Runs the command.
pub(crate) fn run(args: &SearchArgs) -> Result<()> {
    let asked = args.asked.read(args.k)?;
    let until = args.until.is_none() || asked.truth().is_some();
    ensure!(until, "--until takes a --truth");
    let database = args.database.open()?;
    let rows = collection(&database, &args.collection)?;
    let (threads, rounds) = (threads(args.threads), args.rounds.max(1));
    let table = Table::new(&["list", "recall", "wrong", "qps", "mean_us", "p99_us", "reads"]);
    if !args.json {
        print_line(&table.header())?;
    }
    let lists = args.list.iter().copied().map(Some);
    let lists: Vec<_> = if args.list.is_empty() { vec![None] } else { lists.collect() };
    for list in lists {
        let load = Load { rows: &rows, asked: &asked, field: &args.field, k: args.k, list };
        let figures = load.measure(threads, rounds)?;
        if args.json {
            let mut line = figures.json();
            line["threads"] = threads.into();
            line["pools"] = pools(&database);
            print_json(&line)?;
        } else {
            print_line(&table.line(&figures.cells()))?;
        }
        let found = figures.found.map(|found| found.recall());
        if args.until.zip(found).is_some_and(|(until, recall)| recall >= until) {
            break;
        }
    }
    if args.explain {
        let filters = (0..asked.queries().rows()).filter_map(|query| asked.filter(query));
        let plans = Plans::of(&rows, &args.field, filters)?;
        if args.json { print_json(&plans.json())? } else { print_line(&plans.line())? }
    }
    Ok(())
}

fn pools(database: &Database) -> Value {
    let accountant = database.accountant();
    let pools = Pool::ALL.iter();
    pools
        .map(|&p| (p.name().to_owned(), accountant.pool_bytes(p).into()))
        .collect::<Map<_, _>>()
        .into()
}

/// Queries asked of a collection in one way.
struct Load<'a> {
    rows: &'a Collection,
    asked: &'a Asked,
    field: &'a str,
    k: usize,
    list: Option<usize>,
}

/// The answer to one query: keys and distances, and how long it took.
struct Answer {
    query: usize,
    hits: Vec<(u64, f32)>,
    time_ns: u64,
}

/// The figures of one round.
struct Figures {
    list: Option<usize>,
    k: usize,
    queries: usize,
    found: Option<Found>,
    wall_s: f64,
    latency: Latency,
    cpu: CpuTime,
    read_bytes: u64,
}

impl Load<'_> {
    /// The round with the median rate.
    fn measure(&self, threads: usize, rounds: usize) -> Result<Figures> {
        let queries = self.asked.queries().rows();
        self.pass(threads, queries.saturating_sub(WARM_UP)..queries)?;
        let rounds = (0..rounds).map(|_| self.round(threads));
        let mut rounds = rounds.collect::<Result<Vec<_>>>()?;
        let walls: Vec<f64> = rounds.iter().map(|round| round.wall_s).collect();
        Ok(rounds.swap_remove(median_index(&walls)))
    }

    fn round(&self, threads: usize) -> Result<Figures> {
        let queries = self.asked.queries().rows();
        let (cpu, read, begun) = (CpuTime::now(), storage_read_bytes(), Instant::now());
        let mut answers = self.pass(threads, 0..queries)?;
        let wall_s = begun.elapsed().as_secs_f64();
        let (cpu, read_after) = (CpuTime::now().since(cpu), storage_read_bytes());
        let mut times: Vec<u64> = answers.iter().map(|answer| answer.time_ns).collect();
        answers.sort_by_key(|answer| answer.query);
        let hits: Vec<_> = answers.into_iter().map(|answer| answer.hits).collect();
        Ok(Figures {
            list: self.list,
            k: self.k,
            queries,
            found: self.asked.truth().map(|truth| truth.found(self.k, &hits)),
            wall_s,
            latency: Latency::of(&mut times),
            cpu,
            read_bytes: read_after.zip(read).map_or(0, |(after, before)| after - before),
        })
    }

    /// Asks these queries, each thread the next one that is left.
    fn pass(&self, threads: usize, queries: std::ops::Range<usize>) -> Result<Vec<Answer>> {
        let next = AtomicUsize::new(queries.start);
        let share = || -> Result<Vec<Answer>> {
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

    fn ask(&self, query: usize) -> Result<Answer> {
        let search = VectorSearch {
            field: self.field,
            k: self.k,
            metric: None,
            list: self.list,
            partitions: None,
            filter: self.asked.filter(query).map(Filter::new),
            output: &[],
        };
        let vector = one(self.asked.queries(), query);
        let begun = Instant::now();
        let found = self.rows.search(&search, vector).with_context(|| format!("query {query}"))?;
        let time_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let hits = found.into_iter().flatten();
        let hits = hits.map(|hit| (key(&hit).unsigned_abs(), hit.distance)).collect();
        Ok(Answer { query, hits, time_ns })
    }
}

impl Figures {
    fn qps(&self) -> f64 {
        self.queries as f64 / self.wall_s
    }

    fn reads(&self) -> f64 {
        self.read_bytes as f64 / PAGE_BYTES / self.queries as f64
    }

    fn json(&self) -> Value {
        let micros = |us: f64| rounded(us, 1);
        json!({
            "list": self.list, "k": self.k, "queries": self.queries,
            "recall": self.found.map(|found| rounded(found.recall(), 5)),
            "expected": self.found.map(|found| found.expected),
            "wrong": self.found.map(|found| found.wrong), "qps": rounded(self.qps(), 1),
            "mean_us": micros(self.latency.mean_us), "p50_us": micros(self.latency.p50_us),
            "p99_us": micros(self.latency.p99_us), "reads": rounded(self.reads(), 2),
            "cpu_us": micros(self.cpu.total_us() / self.queries as f64),
            "peak_rss_bytes": peak_rss_bytes(),
        })
    }

    fn cells(&self) -> [String; 7] {
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
