//! `pipeann-lab collections search`: queries with filters or without, measured.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use pipeann_cli::searching::threads;
use pipeann_cli::table::{Table, print_json, print_line};
use pipeann_cli::truth::{NO_ROW, Truth};
use pipeann_db::database::Database;
use pipeann_engine::memory::Pool;
use pipeann_engine::types::Metric;
use serde_json::{Map, Value};

use super::asked::AskedArgs;
use super::opening::{DatabaseArgs, collection};
use super::plans::Plans;
use super::rounds::{QueryLoad, TITLES, Unseen};

/// Search a collection, and measure recall, throughput, latency, reads and processor time
///
/// One line for each list length. The last queries run unmeasured before each line. Recall counts
/// the rows found among those that should be: the k nearest that match, or all where fewer do.
#[derive(Debug, Args)]
pub(crate) struct CollectionSearchArgs {
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
    /// End after the first list with this recall; lists before it are measured once
    #[arg(long, value_name = "RECALL")]
    until: Option<f64>,
    /// Threads, each with one query in flight; 0 for one on each core
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Measure each list so many times and report the round with the median rate
    #[arg(long, value_name = "TIMES", default_value_t = 1)]
    rounds: usize,
    /// Ask each filter as one that was not asked before, so that nothing kept of filters helps
    #[arg(long)]
    unseen: bool,
    /// How vectors are compared, where the field has no index
    #[arg(long)]
    metric: Option<Metric>,
    /// Write the answers of the last list as a truth file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Afterwards tell how often which plan is chosen for the filters
    #[arg(long)]
    explain: bool,
    /// Print one JSON object for each list, and one for the plans
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &CollectionSearchArgs) -> Result<()> {
    let asked = args.asked.read(args.k)?;
    let until = args.until.is_none() || asked.truth().is_some();
    ensure!(until, "--until takes a --truth");
    let database = args.database.open()?;
    let rows = collection(&database, &args.collection)?;
    let (threads, rounds) = (threads(args.threads), args.rounds.max(1));
    let table = Table::new(&TITLES);
    if !args.json {
        print_line(&table.header())?;
    }
    let lists = args.list.iter().copied().map(Some);
    let lists: Vec<_> = if args.list.is_empty() { vec![None] } else { lists.collect() };
    let mut answers = Vec::new();
    let unseen = args.unseen.then(Unseen::default);
    for list in lists {
        let (field, k, metric) = (&args.field, args.k, args.metric);
        let unseen = unseen.as_ref();
        let load = QueryLoad { rows: &rows, asked: &asked, field, k, metric, list, unseen };
        let figures = load.measure(threads, rounds, args.until)?;
        if args.json {
            let mut line = figures.json();
            line["threads"] = threads.into();
            line["pools"] = pools(&database);
            line["devices"] = args.database.devices()?;
            print_json(&line)?;
        } else {
            print_line(&table.line(&figures.cells()))?;
        }
        let enough = args.until.is_some_and(|recall| figures.has(recall));
        answers = figures.answers;
        if enough {
            break;
        }
    }
    if let Some(out) = &args.out {
        as_truth(args.k, &answers).write(out)?;
    }
    if args.explain {
        let filters = (0..asked.queries().rows()).filter_map(|query| asked.filter(query));
        let plans = Plans::of(&rows, &args.field, filters)?;
        if args.json { print_json(&plans.json())? } else { print_line(&plans.line())? }
    }
    Ok(())
}

/// The answers in the form of a truth, whose places are filled up where there are fewer.
fn as_truth(k: usize, answers: &[Vec<(u64, f32)>]) -> Truth {
    let place = |answer: &Vec<(u64, f32)>, at| answer.get(at).copied();
    let each = answers.iter().flat_map(|answer| (0..k).map(move |at| place(answer, at)));
    let row = |(row, _)| u32::try_from(row).unwrap_or(NO_ROW);
    let ids = each.clone().map(|hit| hit.map_or(NO_ROW, row)).collect();
    let distances = each.map(|hit| hit.map_or(f32::INFINITY, |(_, distance)| distance)).collect();
    Truth::new(answers.len(), k, ids, distances)
}

fn pools(database: &Database) -> Value {
    let accountant = database.accountant();
    let pools = Pool::ALL.iter();
    pools
        .map(|&p| (p.name().to_owned(), accountant.pool_bytes(p).into()))
        .collect::<Map<_, _>>()
        .into()
}
