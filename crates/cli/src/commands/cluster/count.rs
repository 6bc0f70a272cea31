//! `pipeann cluster count`: what searches of a cluster would read and send, counted in one process.

use anyhow::{Context, Result, ensure};
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::memory::MemoryLimit;
use pipeann_engine::pool::{
    Filters, LocalCluster, LocalError, PoolError, QueryAndFilter, StateSizes, Travelled,
};
use pipeann_engine::search::{Policy, SearchParams};
use serde_json::json;

use super::answers::QueryAnswers;
use super::count_args::CountArgs;
use super::count_modes;
use crate::measure::{most_over_mean, rounded};
use crate::table::{Table, print_json, print_line};
use crate::truth::Truth;
use crate::vectors_file::{VectorsFile, check_same_shape};

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
    /// The most pages that one server read over the mean of all.
    skew: f64,
    /// Queries that one server answered otherwise, or at another cost.
    differ: Option<usize>,
    /// States handed over by their length.
    state_bytes: Vec<u64>,
    /// What each query found, where it is to be told.
    answers: Option<QueryAnswers>,
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
    let home = policy.home && !args.modes.choosing.round_robin();
    let policy = Policy { home, ..policy };
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
    let lists = args.lists();
    // What one server gave, by list.
    let mut one: Vec<Vec<Same>> = Vec::new();
    for (nth, &servers) in args.servers.iter().enumerate() {
        let sizes = (servers, queries.rows());
        let resolver = filters.as_ref().map(|_| &resolver as &Filters<'_>);
        let mut cluster = LocalCluster::open(&args.index.index, &options, sizes, resolver)
            .with_context(|| format!("opening {}", args.index.index.display()))?;
        for (at, &list) in lists.iter().enumerate() {
            let policy = policy.clone();
            let params = SearchParams { k: args.k, list, policy, ..SearchParams::default() };
            params.validate()?;
            let filter = |row: usize| filters.as_ref().map(|filters| filters[row].as_slice());
            let rows = (0..queries.rows()).map(|row| (queries.row(row), filter(row)));
            let (mut counted, answers) = RunSums::taken(&mut cluster, rows, (servers, &params))?;
            let found = QueryAnswers::of(&answers);
            counted.recall = truth.as_ref().map(|truth| truth.recall(args.k, &found.hits));
            counted.answers = args.hits.then_some(found);
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
    /// Searches all queries on so many servers, and counts what that took.
    fn taken<'q>(
        cluster: &mut LocalCluster,
        rows: impl ExactSizeIterator<Item = QueryAndFilter<'q>>,
        (servers, params): (usize, &SearchParams),
    ) -> Result<(Self, Vec<Travelled>), PoolError> {
        let (pages, states) = (cluster.pages(), cluster.state_bytes());
        let answers = cluster.search(rows, params)?;
        let pages = cluster.pages().into_iter().zip(pages).map(|(after, at)| after - at);
        let mut sums = Self::of((servers, params.list), &answers, pages.collect());
        let after = cluster.state_bytes();
        let states = after.buckets().iter().zip(states.buckets());
        sums.state_bytes = states.map(|(after, at)| after - at).collect();
        Ok((sums, answers))
    }

    fn of((servers, list): (usize, usize), answers: &[Travelled], pages: Vec<u64>) -> Self {
        let sum = |of: fn(&Travelled) -> u64| answers.iter().map(of).sum::<u64>();
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
            skew: most_over_mean(&pages),
            differ: None,
            state_bytes: Vec::new(),
            answers: None,
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
        let mut told = json!({
            "policy": policy, "servers": self.servers, "list": self.list,
            "vector_bytes": vector_bytes,
            "recall": self.recall.map(|recall| rounded(recall, 5)), "queries": self.queries,
            "reads": mean(self.reads), "hops": rounded(self.hops(), 4),
            "hops_to_entry": mean(self.to_entry), "code_distances": mean(self.codes),
            "bytes_a_hop": rounded(self.bytes_a_hop(), 1), "skew": rounded(self.skew, 4), "differ": self.differ,
            "state_bytes_at_most": StateSizes::AT_MOST, "states": self.state_bytes,
        });
        if let Some(answers) = &self.answers {
            answers.tell(&mut told);
        }
        told
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
