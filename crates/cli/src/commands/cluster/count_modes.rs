//! `pipeann cluster count --mode`: every message of a mode counted, and what servers read for it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pipeann_cluster::placement::{Placement, Server};
use pipeann_cluster::relay::{Asker, AskerSettings, Found, NoAnswer, Query};
use pipeann_cluster::walker::{
    Answered, Asked, Centroids, Counted as Servers, ReadPolicy, Spent, WalkerOptions, gather,
};
use pipeann_cluster::wire::Hits;
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::memory::MemoryLimit;
use pipeann_engine::pool::PoolOptions;
use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::VectorSet;
use serde_json::json;

use super::count_args::{CountArgs, ModeArgs};
use super::modes::{Steps, Together, centroids, fits, orchestrator};
use super::serve::check_separate;
use super::split::CENTROIDS;
use crate::measure::{most_over_mean, rounded};
use crate::table::{Table, print_json, print_line};
use crate::truth::Truth;
use crate::vectors_file::{VectorsFile, check_same_shape};

/// Steps or hops that a query may take.
const HOPS: u16 = u16::MAX;
/// No time passes for these servers.
const LONG: u64 = 1 << 50;
/// Longest that a search waits for its thread.
const LONGEST: Duration = Duration::from_secs(3600);

/// Means over the queries of a run.
struct ModeMeans {
    servers: usize,
    list: usize,
    recall: Option<f64>,
    reads: f64,
    codes: f64,
    rounds: f64,
    messages: f64,
    bytes: f64,
    /// The most pages that one server read over the mean of all.
    skew: f64,
}

const COLUMNS: [&str; 9] =
    ["servers", "list", "recall", "reads", "codes", "rounds", "messages", "bytes", "skew"];

/// Runs the command.
pub(super) fn run(args: &CountArgs) -> Result<()> {
    let mode = args.modes.mode.expect("checked by the caller");
    args.modes.choosing.check(mode)?;
    ensure!(
        args.filter.is_empty(),
        "--mode counts searches without filters; leave it out to count hops of those with filters"
    );
    let scattered = mode == Together::Scatter;
    ensure!(scattered == args.modes.separate.is_some(), "--separate goes with --mode scatter");
    let options = OpenOptions {
        codes_per_read: Some(args.codes_per_read),
        ..args.index.reading.options(MemoryLimit::Floor)?
    };
    let whole = Index::open(&args.index.index, &options)
        .with_context(|| format!("opening {}", args.index.index.display()))?;
    let file = VectorsFile::open(&args.queries)?;
    let shape = (whole.dim(), whole.layout().vector_type());
    check_same_shape(&file, shape, &args.index.index)?;
    let queries = file.first(args.limit_queries.unwrap_or(usize::MAX));
    let truth =
        args.truth.as_ref().map(|path| Truth::of_first(path, file.rows(), queries.rows(), args.k));
    let truth = truth.transpose()?;
    let table = Table::new(&COLUMNS);
    if !args.json {
        print_line(&table.header())?;
    }
    for &servers in &args.servers {
        let placement = Arc::new(shared(whole.partitions(), servers)?);
        let mut counted = open(args, &options, &placement, mode)?;
        let nearest = nearest(args)?;
        for list in args.lists() {
            let before = counted.pages();
            let answers = ask(args, &mut counted, &placement, queries, nearest.as_ref(), list)?;
            let pages = counted.pages().into_iter().zip(before).map(|(after, at)| after - at);
            let line =
                ModeMeans::of((servers, list), &answers, pages.collect(), args.k, truth.as_ref());
            if args.json {
                print_json(&line.json(args, mode))?;
            } else {
                print_line(&table.line(&line.cells()))?;
            }
        }
    }
    Ok(())
}

/// So many servers, which share the partitions in order. Nobody dials them.
fn shared(partitions: usize, servers: usize) -> Result<Placement> {
    ensure!(
        (1..=partitions).contains(&servers),
        "{servers} servers cannot share {partitions} partitions: each needs one at least"
    );
    let of = |number: usize| Server {
        number: number as u32,
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1 + number as u16)),
        tls_name: String::new(),
        partitions: (0..partitions as u32)
            .filter(|partition| *partition as usize * servers / partitions == number)
            .collect(),
    };
    let servers = (0..servers).map(of).collect();
    Ok(Placement::new("counted".to_owned(), partitions as u32, servers)?)
}

fn open(
    args: &CountArgs,
    options: &OpenOptions,
    placement: &Arc<Placement>,
    mode: Together,
) -> Result<Servers> {
    let opened = |dir: &Path, options: &OpenOptions| -> Result<Arc<Index>> {
        let index =
            Index::open(dir, options).with_context(|| format!("opening {}", dir.display()))?;
        index.wait_resident()?;
        Ok(Arc::new(index))
    };
    Servers::open(placement, |number| {
        let own = Some(placement.server(number)?.partitions.as_slice().into());
        let (own, home) = if mode == Together::Replicas { (None, own) } else { (own, None) };
        let index = opened(&args.index.index, &OpenOptions { own, home, ..options.clone() })?;
        let separate = args.modes.separate.as_ref();
        let separate = separate.map(|dir| {
            let separate = opened(&dir.join(format!("server-{number}")), options)?;
            check_separate(&separate, &index, placement.server(number)?)?;
            anyhow::Ok(separate)
        });
        let pool = PoolOptions { threads: 1, in_flight: 8, waiting: 1024, ..Default::default() };
        let separate = separate.transpose()?;
        let beside = WalkerOptions {
            separate,
            separate_filters: None,
            filters: None,
            pool,
            longest: LONGEST,
        };
        anyhow::Ok((index, beside))
    })
}

/// The centroids by which servers are chosen, and how many are.
fn nearest(args: &CountArgs) -> Result<Option<(Centroids, usize)>> {
    let ModeArgs { choosing, separate, .. } = &args.modes;
    let Some(most) = choosing.nearest else { return Ok(None) };
    let beside = separate.as_ref().map(|dir| dir.join(CENTROIDS));
    let path = choosing.centroids.clone().or(beside).context("--nearest needs --separate")?;
    Ok(Some((centroids(&path)?, most)))
}

/// A query that was answered, and the messages and bytes that it took.
struct CountedAnswer {
    found: Found,
    messages: u64,
    bytes: u64,
}

/// Asks all queries.
fn ask(
    args: &CountArgs,
    servers: &mut Servers,
    placement: &Arc<Placement>,
    queries: VectorSet<'_>,
    nearest: Option<&(Centroids, usize)>,
    list: usize,
) -> Result<Vec<CountedAnswer>> {
    let mode = args.modes.mode.expect("checked by the caller");
    let ty = queries.vector_type();
    let (list, k) = (u32::try_from(list)?, u32::try_from(args.k)?);
    let each = args.modes.choosing.each.unwrap_or(k);
    let baton = mode == Together::Baton;
    let policy = ReadPolicy { baton, width: args.policy.width, ahead: args.policy.ahead };
    let (width, ahead) = (policy.width(), policy.ahead(each, list));
    let (round_robin, within) = (args.modes.choosing.round_robin(), DistanceRange::ALL);
    let asked = Asked { k: each, list, width, ahead, baton, round_robin, ty, within };
    let query = |row: usize, at| Query {
        mode: mode.mode(args.modes.choosing.by),
        parameters: asked.encode(),
        vector: queries.row(row).to_vec(),
        left_us: LONG,
        hops: HOPS,
        at,
        partial: false,
    };
    // For each query, the servers that are asked at once; none where one is, in turn.
    let at: Vec<Vec<Option<u32>>> = (0..queries.rows())
        .map(|row| match (mode, nearest) {
            (Together::Scatter, Some((centroids, most))) => {
                ensure!(
                    fits(centroids, queries.row(row), ty),
                    "the centroids are of other vectors"
                );
                let near = centroids.nearest(queries.row(row), ty, *most);
                Ok(near.into_iter().map(Some).collect())
            }
            (Together::Scatter, None) => {
                Ok(placement.servers().iter().map(|server| Some(server.number)).collect())
            }
            _ => Ok(vec![None]),
        })
        .collect::<Result<_>>()?;
    let all = at.iter().enumerate().flat_map(|(row, at)| at.iter().map(move |&at| query(row, at)));
    let waiting = at.iter().map(Vec::len).sum();
    let (me, attempt_us, attempts) = (Servers::asker(), LONG, 1);
    let settings = AskerSettings { me, attempt_us, attempts, waiting };
    let answers = if mode == Together::DistributedAnn {
        let steps = Steps { k, list, width };
        let mut asker = orchestrator(settings, Arc::clone(placement));
        let packed = args.modes.choosing.packed;
        servers.ask(&mut asker, all.map(|query| steps.of(query, packed)))?
    } else {
        servers.ask(&mut Asker::new(settings, Arc::clone(placement)), all)?
    };
    let mut answers = answers.into_iter();
    let merged = at.iter().map(|at| {
        let (mut found, mut messages, mut bytes) = (Vec::new(), 0, 0);
        for Answered { ended, messages: sent, bytes: of } in answers.by_ref().take(at.len()) {
            found.push(ended?);
            messages += sent;
            bytes += of;
        }
        let found = match (mode, found.len()) {
            (Together::Scatter, _) | (_, 0) => gather(found, args.k),
            _ => found.remove(0),
        };
        Ok::<_, NoAnswer>(CountedAnswer { found, messages, bytes })
    });
    Ok(merged.collect::<Result<_, _>>()?)
}

impl ModeMeans {
    fn of(
        (servers, list): (usize, usize),
        answers: &[CountedAnswer],
        pages: Vec<u64>,
        k: usize,
        truth: Option<&Truth>,
    ) -> Self {
        let queries = answers.len().max(1) as f64;
        let spent: Vec<Spent> = answers
            .iter()
            .map(|answer| Spent::decode(&answer.found.stats).unwrap_or_default())
            .collect();
        let mean = |sum: u64| sum as f64 / queries;
        let of_spent = |of: fn(&Spent) -> u32| mean(spent.iter().map(|s| u64::from(of(s))).sum());
        let hits = answers.iter().map(|answer| {
            let hits = Hits::of(&answer.found.hits).unwrap_or_default();
            hits.iter().map(|hit| (hit.row, hit.distance)).collect()
        });
        let recall = truth.map(|truth| truth.recall(k, &hits.collect::<Vec<_>>()));
        Self {
            servers,
            list,
            recall,
            reads: of_spent(|s| s.reads.saturating_add(s.from_memory)),
            codes: of_spent(|s| s.codes),
            rounds: mean(answers.iter().map(|answer| u64::from(answer.found.rounds)).sum()),
            messages: mean(answers.iter().map(|answer| answer.messages).sum()),
            bytes: mean(answers.iter().map(|answer| answer.bytes).sum()),
            skew: most_over_mean(&pages),
        }
    }

    fn json(&self, args: &CountArgs, mode: Together) -> serde_json::Value {
        let choosing = &args.modes.choosing;
        json!({
            "mode": format!("{:?}", mode.mode(choosing.by)).to_lowercase(),
            "width": args.policy.width, "nearest": choosing.nearest, "each": choosing.each,
            "packed": choosing.packed,
            "servers": self.servers, "list": self.list,
            "recall": self.recall.map(|recall| rounded(recall, 5)),
            "reads": rounded(self.reads, 4), "code_distances": rounded(self.codes, 2),
            "rounds": rounded(self.rounds, 4), "messages": rounded(self.messages, 4),
            "bytes": rounded(self.bytes, 1), "skew": rounded(self.skew, 4),
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.servers.to_string(),
            self.list.to_string(),
            self.recall.map_or("-".into(), |recall| format!("{recall:.4}")),
            format!("{:.2}", self.reads),
            format!("{:.0}", self.codes),
            format!("{:.2}", self.rounds),
            format!("{:.2}", self.messages),
            format!("{:.0}", self.bytes),
            format!("{:.2}", self.skew),
        ]
    }
}
