//! `pipeann cluster count`: what searches of a cluster would read and send, counted in one process.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::memory::MemoryLimit;
use pipeann_engine::pool::{Filters, LocalCluster, LocalError, Travelled};
use pipeann_engine::search::SearchParams;
use serde_json::json;

use super::count_modes::{self, ModeArgs};
use crate::columns::{ColumnArgs, FilterArgs};
use crate::measure::rounded;
use crate::opening::IndexArgs;
use crate::policy::PolicyArgs;
use crate::table::{Table, print_json, print_line};
use crate::truth::Truth;
use crate::vectors_file::{VectorsFile, check_same_shape};

/// Count what searches of a cluster would read, and how often and in how many bytes they would go
/// from server to server
///
/// The servers are threads of this process, each of which reads the pages of its own partitions
/// alone. Counts are exact: they do not depend on how messages travel. Times say nothing here and
/// are not told. Where one server comes first, the others tell how many queries differ from it: by
/// their hits, or by the pages read and nodes explored. Queries begin at the servers in turn; a first hop to where the entry is, before
/// anything was read, is told apart: who asks with the head index at hand does without it.
///
/// With --mode every message is counted as its frame would be sent, those from and to the client among
/// them, in rounds that the client waits for; --width and --ahead say how a mode searches.
#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(super) index: IndexArgs,
    /// Queries: .u8bin, .fbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    pub(super) queries: PathBuf,
    /// Exact truth of these queries, as `pipeann gt` writes it, or .ivecs
    #[arg(long, value_name = "FILE")]
    pub(super) truth: Option<PathBuf>,
    /// Results for each query
    #[arg(long, default_value_t = 10)]
    pub(super) k: usize,
    /// Servers, which share the partitions of the index in order
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_value = "1,2,5,10")]
    pub(super) servers: Vec<usize>,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) modes: ModeArgs,
    #[command(flatten)]
    pub(super) columns: ColumnArgs,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    /// Lengths of the candidate list: longer finds more and reads more
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_value = "20,30,40,60,100")]
    pub(super) list: Vec<usize>,
    /// Codes that are ranked in the time of one page read, which decides whether a search among few
    /// rows ranks them all or walks the graph. Searches outside of counts learn it from themselves
    #[arg(long, value_name = "N", default_value_t = 2500)]
    pub(super) codes_per_read: u32,
    /// Use only the first queries
    #[arg(long, value_name = "N")]
    pub(super) limit_queries: Option<usize>,
    /// Print one JSON object for each line
    #[arg(long)]
    pub(super) json: bool,
}

/// Sums over the answers of a run.
struct RunSums {
    servers: usize,
    list: usize,
    queries: f64,
    recall: Option<f64>,
    reads: u64,
    moves: u64,
    to_entry: u64,
    bytes: u64,
    codes: u64,
    /// The most that one server had to do over the mean of all.
    skew: f64,
    /// Queries that one server answered otherwise, or at another cost.
    differ: Option<usize>,
}

/// What is the same however many servers there are: hits, pages read and nodes explored. Codes may be
/// scored once more where a search wakes up.
#[derive(PartialEq)]
struct Same(Vec<(u64, u32)>, [u64; 2]);

impl Same {
    fn of(answer: &Travelled) -> Self {
        let hits = answer.hits.iter().map(|hit| (hit.row.0, hit.distance.to_bits()));
        let stats = &answer.stats;
        let read = stats.reads + stats.resident_pages;
        Self(hits.collect(), [read, stats.hops])
    }
}

/// Runs the command.
pub(crate) fn run(args: &CountArgs) -> Result<()> {
    ensure!(args.limit_queries != Some(0), "--limit-queries is 0, but must be at least 1");
    if args.modes.mode.is_some() {
        return count_modes::run(args);
    }
    let policy = args.policy.policy()?;
    let options = OpenOptions {
        codes_per_read: Some(args.codes_per_read),
        ..args.index.reading.options(MemoryLimit::Floor)?
    };
    let (dim, ty) = {
        let index = Index::open(&args.index.index, &options)?;
        (index.dim(), index.layout().vector_type())
    };
    let file = VectorsFile::open(&args.queries)?;
    check_same_shape(&file, (dim, ty), &args.index.index)?;
    let queries = file.first(args.limit_queries.unwrap_or(usize::MAX));
    let truth =
        args.truth.as_ref().map(|path| Truth::of_first(path, file.rows(), queries.rows(), args.k));
    let truth = truth.transpose()?;
    let filters = args.filter.of_each(queries.rows())?;
    let resolver =
        |index: &_| args.columns.over(index).map_err(|e| LocalError::Filters(format!("{e:#}")));
    let columns =
        ["servers", "list", "recall", "reads", "hops", "to entry", "bytes a hop", "skew", "differ"];
    let table = Table::new(&columns);
    if !args.json {
        print_line(&table.header())?;
    }
    // What one server gave, by list.
    let mut one: Vec<Vec<Same>> = Vec::new();
    for (nth, &servers) in args.servers.iter().enumerate() {
        let sizes = (servers, queries.rows());
        let resolver = filters.as_ref().map(|_| &resolver as &Filters<'_>);
        let mut cluster = LocalCluster::open(&args.index.index, &options, sizes, resolver)
            .with_context(|| format!("opening {}", args.index.index.display()))?;
        for (at, &list) in args.list.iter().enumerate() {
            let policy = policy.clone();
            let params = SearchParams { k: args.k, list, policy, ..SearchParams::default() };
            params.validate()?;
            let before = cluster.visits();
            let filter = |row: usize| filters.as_ref().map(|filters| filters[row].as_slice());
            let rows = (0..queries.rows()).map(|row| (queries.row(row), filter(row)));
            let answers = cluster.search(rows, &params)?;
            let visits = cluster.visits().into_iter().zip(before).map(|(after, at)| after - at);
            let mut counted = RunSums::of((servers, list), &answers, visits.collect());
            counted.recall = truth.as_ref().map(|truth| {
                let found = answers.iter().map(|answer| {
                    answer.hits.iter().map(|hit| (hit.row.0, hit.distance)).collect()
                });
                truth.recall(args.k, &found.collect::<Vec<_>>())
            });
            let same = answers.iter().map(Same::of);
            if nth == 0 && servers == 1 {
                one.push(same.collect());
            } else if let Some(one) = one.get(at) {
                counted.differ = Some(same.zip(one).filter(|(a, b)| a != *b).count());
            }
            if args.json {
                print_json(&counted.json(&args.policy.policy, ty.vector_bytes(dim)))?;
            } else {
                print_line(&table.line(&counted.cells()))?;
            }
        }
    }
    Ok(())
}

impl RunSums {
    fn of((servers, list): (usize, usize), answers: &[Travelled], visits: Vec<u64>) -> Self {
        let sum = |of: fn(&Travelled) -> u64| answers.iter().map(of).sum::<u64>();
        let most = visits.iter().copied().max().unwrap_or_default() as f64;
        let mean = visits.iter().sum::<u64>() as f64 / visits.len().max(1) as f64;
        Self {
            servers,
            list,
            queries: answers.len().max(1) as f64,
            recall: None,
            reads: sum(|a| a.stats.reads + a.stats.resident_pages),
            moves: sum(|a| a.travel.moves),
            to_entry: sum(|a| a.travel.to_entry),
            bytes: sum(|a| a.travel.bytes),
            codes: sum(|a| a.stats.code_distances),
            skew: most / mean.max(f64::MIN_POSITIVE),
            differ: None,
        }
    }

    /// Hops after the one to the entry, for a query.
    fn hops(&self) -> f64 {
        (self.moves - self.to_entry) as f64 / self.queries
    }

    fn bytes_a_hop(&self) -> f64 {
        self.bytes as f64 / self.moves.max(1) as f64
    }

    fn json(&self, policy: &str, vector_bytes: usize) -> serde_json::Value {
        let mean = |sum: u64| rounded(sum as f64 / self.queries, 4);
        json!({
            "policy": policy, "servers": self.servers, "list": self.list,
            "vector_bytes": vector_bytes,
            "recall": self.recall.map(|recall| rounded(recall, 5)), "queries": self.queries,
            "reads": mean(self.reads), "hops": rounded(self.hops(), 4),
            "hops_to_entry": mean(self.to_entry), "code_distances": mean(self.codes),
            "bytes_a_hop": rounded(self.bytes_a_hop(), 1), "skew": rounded(self.skew, 4), "differ": self.differ,
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.servers.to_string(),
            self.list.to_string(),
            self.recall.map_or("-".into(), |recall| format!("{recall:.4}")),
            format!("{:.2}", self.reads as f64 / self.queries),
            format!("{:.2}", self.hops()),
            format!("{:.2}", self.to_entry as f64 / self.queries),
            format!("{:.0}", self.bytes_a_hop()),
            format!("{:.2}", self.skew),
            self.differ.map_or("-".into(), |differ| differ.to_string()),
        ]
    }
}
