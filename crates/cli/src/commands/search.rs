//! `pipeann search`: search an index and measure it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_engine::index::{Answer, Index};

use crate::opening::IndexArgs;
use crate::policy::PolicyArgs;
use crate::searching::{Figures, RunSettings, lists, measure, split, threads, warm_up};
use crate::table::{print_json, print_line};
use crate::truth::Truth;
use crate::vectors_file::{VectorsFile, check_same_shape, write_ivecs};
use pipeann_engine::memory::MemoryLimit;

/// Lengths of the candidate list that are measured where none are named and `--k` is not longer.
const USUAL_LISTS: [usize; 5] = [20, 30, 40, 60, 100];

/// Search an index, and measure recall, latency, throughput, reads and CPU
///
/// One line for each list length. Recall@k counts an answer as correct if its id is among the
/// first k of the truth, or if its distance is not above the k-th true distance (of rows at
/// equal distance any will do). Counts are means over the queries. A few queries run unmeasured
/// before each line.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    index: IndexArgs,
    /// Queries: .fbin, .f16bin, .bf16bin, .u8bin, .i8bin, .bbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Exact truth of these queries, as `pipeann gt` writes it, or .ivecs
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Results for each query
    #[arg(long, default_value_t = 10)]
    k: usize,
    #[command(flatten)]
    policy: PolicyArgs,
    /// Lengths of the candidate list: longer finds more and reads more
    /// [default: those of 20,30,40,60,100 that --k results fit into]
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    list: Vec<usize>,
    /// Threads; 0 for one on each core
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Queries in flight on each thread, 1 to 64
    #[arg(long, value_name = "QUERIES", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    in_flight: u16,
    /// Memory for the index: floor (no pages stay in memory), all, or bytes as 512MiB or 1GiB
    #[arg(long, value_name = "LIMIT", default_value = "floor")]
    memory_limit: MemoryLimit,
    /// Measure each list so many times and report the run with the median rate
    #[arg(long, value_name = "TIMES", default_value_t = 1)]
    repeat: usize,
    /// Use only the first queries
    #[arg(long, value_name = "N")]
    limit_queries: Option<usize>,
    /// Search the first queries before, unmeasured, and measure the others: under a limit that not
    /// all pages fit into, the pages that the first ones use most are in memory then
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm: usize,
    /// Write the answers of the one list given: ids (.ivecs), or ids and distances as a truth
    /// file (.bin)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object for each list
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &SearchArgs) -> Result<()> {
    ensure!(args.limit_queries != Some(0), "--limit-queries is 0, but must be at least 1");
    let lists = lists(&args.list, &USUAL_LISTS, args.k);
    if let Some(out) = &args.out {
        ensure!(lists.len() == 1, "--out takes the answers of one list; --list names it");
        let known = out.extension().is_some_and(|e| e == "ivecs" || e == "bin");
        ensure!(known, "{}: answers are written as .ivecs or .bin", out.display());
    }
    let policy = args.policy.policy()?;
    let index = args.index.open(args.memory_limit)?;
    let file = VectorsFile::open(&args.queries)?;
    let shape = (index.dim(), index.layout().vector_type());
    check_same_shape(&file, shape, &args.index.index)?;
    let queries = file.first(args.limit_queries.unwrap_or(usize::MAX));
    ensure!(
        args.warm < queries.rows(),
        "--warm {} leaves none of the {} queries to be measured",
        args.warm,
        queries.rows()
    );
    let mut truth = match &args.truth {
        Some(path) => Some(Truth::of_first(path, file.rows(), queries.rows(), args.k)?),
        None => None,
    };
    if let Some(truth) = &mut truth {
        truth.skip(args.warm);
    }
    let (warm, queries) = split(queries, args.warm)?;
    let settings = RunSettings {
        name: args.policy.policy.clone(),
        policy_name: args.policy.policy.clone(),
        policy,
        k: args.k,
        threads: threads(args.threads),
        in_flight: args.in_flight.into(),
        repeat: args.repeat,
    };
    let table = Figures::table(std::iter::once(settings.name.as_str()));
    if !args.json {
        print_line(&table.header())?;
    }
    for list in lists {
        warm_up(&index, warm, list, &settings)?;
        let (figures, answers) = measure(&index, queries, truth.as_ref(), list, &settings)?;
        if args.json {
            print_json(&figures.json(&index, &settings))?;
        } else {
            print_line(&table.line(&figures.cells(&settings.name)))?;
        }
        if let Some(out) = &args.out {
            write_answers(out, args.k, &answers)?;
        }
    }
    if !args.json {
        print_line(&memory_line(&index))?;
    }
    Ok(())
}

/// Where memory goes, in one line.
fn memory_line(index: &Index) -> String {
    let held: Vec<String> = index
        .pools()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(pool, bytes)| format!("{} {}", pool.name(), crate::table::bytes(bytes)))
        .collect();
    let peak = crate::measure::peak_rss_bytes().map_or("unknown".into(), crate::table::bytes);
    format!("memory: {}; peak of the process {peak}", held.join(", "))
}

/// Queries with fewer than `k` hits are filled up with the id 2^32 - 1 at distance infinity.
fn write_answers(path: &Path, k: usize, answers: &[Answer]) -> Result<()> {
    let mut ids = Vec::with_capacity(answers.len() * k);
    let mut distances = Vec::with_capacity(answers.len() * k);
    for (i, answer) in answers.iter().enumerate() {
        for hit in &answer.hits {
            ids.push(u32::try_from(hit.row.0).context("a row id beyond 32 bits")?);
            distances.push(hit.distance);
        }
        ids.resize((i + 1) * k, u32::MAX);
        distances.resize((i + 1) * k, f32::INFINITY);
    }
    if path.extension().is_some_and(|e| e == "ivecs") {
        write_ivecs(path, k, &ids)
    } else {
        Truth::new(answers.len(), k, ids, distances).write(path)
    }
}
