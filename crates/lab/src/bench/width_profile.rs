//! `pipeann-lab bench --profile-width`: which width of the pipeline is best among how many searches.
//!
//! So many searches are kept in flight that the rate and the mean latency say the same: their
//! product is the number of searches. So the width with the highest rate has the lowest latency
//! too, and one table of widths by searches in flight is the best that a static choice can do.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use pipeann_engine::index::Index;
use pipeann_engine::search::{ByLoad, Policy, Width, WidthTable};
use pipeann_engine::types::VectorSet;
use serde_json::json;

use super::width_choice::{Taken, best_widths};
use pipeann_cli::measure::{at_recall, rounded};
use pipeann_cli::opening::{self, Reading};
use pipeann_cli::policy::PolicyArgs;
use pipeann_cli::searching::threads;
use pipeann_cli::searching::{Figures, RunSettings, measure};
use pipeann_cli::table::{Table, print_json, print_line};
use pipeann_cli::truth::Truth;
use pipeann_cli::vectors_file::{VectorsFile, check_same_shape};
use pipeann_cli::width_table;
use pipeann_engine::memory::MemoryLimit;
use pipeann_server::interrupt;

/// What to profile.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Profile an index by the width of the pipeline instead of running a job
    #[arg(long, conflicts_with_all = ["job", "out"], requires_all = ["index", "queries", "truth"])]
    pub(crate) profile_width: bool,
    /// Directory of the index to profile
    #[arg(long, value_name = "DIR", requires = "profile_width")]
    index: Option<PathBuf>,
    /// Queries to profile with
    #[arg(long, value_name = "FILE", requires = "profile_width")]
    queries: Option<PathBuf>,
    /// Their exact truth
    #[arg(long, value_name = "FILE", requires = "profile_width")]
    truth: Option<PathBuf>,
    /// Use only the first queries
    #[arg(long, value_name = "N", default_value_t = 2000)]
    limit_queries: usize,
    /// Recall@10 at which widths are compared
    #[arg(long, default_value_t = 0.95)]
    recall: f64,
    /// Lengths of the candidate list around that recall
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_value = "16,20,25,32")]
    lists: Vec<usize>,
    /// Widest pipelines to try
    #[arg(
        long,
        value_name = "READS,..",
        value_delimiter = ',',
        default_value = "1,2,3,4,6,8,16,32"
    )]
    try_widths: Vec<u16>,
    /// Searches in flight to try, on all cores together
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,2,4,8,16,32")]
    try_searches: Vec<usize>,
    /// Memory for the index: floor, all, or bytes as 512MiB
    #[arg(long, value_name = "LIMIT", default_value = "floor")]
    memory_limit: MemoryLimit,
    /// How often all widths are gone through, in turn; the mean rate counts
    #[arg(long, value_name = "TIMES", default_value_t = 2)]
    rounds: usize,
    /// Write the widths as a file for `--widths`
    #[arg(long, value_name = "FILE.toml", requires = "profile_width")]
    save: Option<PathBuf>,
}

/// Results for each query.
const K: usize = 10;

/// What a width gives among so many searches, at the recall.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cell {
    qps: f64,
    mean_us: f64,
    p99_us: f64,
    reads: f64,
    /// Reads with each of the lists: their slope is what one more candidate costs, which tells
    /// from which candidate on a width wastes no more than a narrow one does.
    by_list: Vec<f64>,
}

/// The cells of so many searches, one for each width.
struct WidthCells {
    searches: usize,
    cells: Vec<Cell>,
}

struct ProfiledIndex<'a> {
    index: Index,
    queries: VectorSet<'a>,
    truth: Truth,
    args: &'a ProfileArgs,
}

/// Takes the profile.
pub(crate) fn run(args: &ProfileArgs, json: bool) -> Result<()> {
    let (Some(path), Some(queries), Some(truth)) = (&args.index, &args.queries, &args.truth) else {
        bail!("--profile-width needs --index, --queries and --truth");
    };
    ensure!(args.try_searches.is_sorted_by(|a, b| a < b), "--try-searches is not ascending");
    ensure!(args.try_searches.first() == Some(&1), "--try-searches does not begin with 1");
    ensure!(args.try_widths.is_sorted_by(|a, b| a < b), "--try-widths is not ascending");
    let index = opening::open(path, args.memory_limit, &Reading::default())?;
    let file = VectorsFile::open(queries)?;
    check_same_shape(&file, (index.dim(), index.layout().vector_type()), path)?;
    let used = file.first(args.limit_queries.max(1));
    let truth = Truth::of_first(truth, file.rows(), used.rows(), K)?;
    let cancel = interrupt::flag()?;
    let subject = ProfiledIndex { index, queries: used, truth, args };
    let mut lines = Vec::new();
    for &searches in &args.try_searches {
        interrupt::check(&cancel)?;
        lines.push(subject.line(searches)?);
    }
    let table = table_from(args, &lines)?;
    if json {
        print_json(&as_json(args, &lines, &table))?;
    } else {
        print_tables(args, &lines, &table)?;
    }
    match &args.save {
        Some(save) => {
            let about = format!("{} at recall {}", path.display(), args.recall);
            width_table::write(save, &table, &about)
        }
        None => Ok(()),
    }
}

impl ProfiledIndex<'_> {
    /// All widths with so many searches in flight; rounds go through them in turn.
    fn line(&self, searches: usize) -> Result<WidthCells> {
        let mut cells = vec![Cell::default(); self.args.try_widths.len()];
        let rounds = self.args.rounds.max(1);
        for _ in 0..rounds {
            for (cell, &width) in cells.iter_mut().zip(&self.args.try_widths) {
                let taken = self.cell(searches, width)?;
                let share = 1.0 / rounds as f64;
                cell.qps += taken.qps * share;
                cell.mean_us += taken.mean_us * share;
                cell.p99_us += taken.p99_us * share;
                cell.reads += taken.reads * share;
                cell.by_list.resize(taken.by_list.len(), 0.0);
                cell.by_list.iter_mut().zip(&taken.by_list).for_each(|(sum, r)| *sum += r * share);
            }
        }
        Ok(WidthCells { searches, cells })
    }

    fn cell(&self, searches: usize, width: u16) -> Result<Cell> {
        let settings = settings(searches, width)?;
        let mut taken = Vec::with_capacity(self.args.lists.len());
        for &list in &self.args.lists {
            let (figures, _) =
                measure(&self.index, self.queries, Some(&self.truth), list, &settings)?;
            taken.push(figures);
        }
        let at = |value: fn(&Figures) -> f64| {
            let points: Vec<(f64, f64)> =
                taken.iter().map(|f| (f.recall.unwrap_or_default(), value(f))).collect();
            at_recall(&points, self.args.recall).with_context(|| {
                format!(
                    "recall {} lies outside of what lists {:?} find with width {width}",
                    self.args.recall, self.args.lists
                )
            })
        };
        Ok(Cell {
            qps: at(Figures::qps)?,
            mean_us: at(|f| f.latency.mean_us)?,
            p99_us: at(|f| f.latency.p99_us)?,
            reads: at(Figures::reads)?,
            by_list: taken.iter().map(Figures::reads).collect(),
        })
    }
}

/// `pipe` that becomes no wider than `width`, with so many searches on as many threads as there
/// are cores for them.
fn settings(searches: usize, width: u16) -> Result<RunSettings> {
    let pipe = PolicyArgs::named("pipe").policy()?;
    let table = ByLoad::Table(WidthTable::new(&[(1, width)])?);
    let wide = match pipe.width.clone() {
        Width::Dynamic { start, converge_at, keep_ratio, .. } => {
            Width::Dynamic { start, max: width.max(start), converge_at, keep_ratio }
        }
        other => other,
    };
    let policy = Policy { width: wide, by_load: table, ..pipe };
    let threads = threads(0).min(searches);
    let in_flight = searches.div_ceil(threads);
    ensure!(in_flight <= 64, "{searches} searches are more than 64 on each of {threads} threads");
    let name = format!("width {width}");
    Ok(RunSettings {
        name,
        policy_name: "pipe".into(),
        policy,
        k: K,
        threads,
        in_flight,
        repeat: 1,
    })
}

/// The table of what is best for each line.
fn table_from(args: &ProfileArgs, lines: &[WidthCells]) -> Result<WidthTable> {
    let taken: Vec<Vec<Taken>> = lines
        .iter()
        .map(|line| line.cells.iter().map(|c| Taken { qps: c.qps, reads: c.reads }).collect())
        .collect();
    let widths = best_widths(&args.try_widths, &taken).context("no width was tried")?;
    let mut steps = Vec::with_capacity(lines.len());
    for (line, width) in lines.iter().zip(widths) {
        steps.push((u32::try_from(line.searches)?, width));
    }
    Ok(WidthTable::new(&steps)?)
}

/// A table of one figure: a line for each number of searches, a column for each width.
fn print_figure(
    args: &ProfileArgs,
    lines: &[WidthCells],
    (title, decimals, value): (&str, usize, fn(&Cell) -> f64),
) -> Result<()> {
    print_line(&format!("\n{title} at recall {}, by searches and width", args.recall))?;
    let table = table_of("searches", args);
    print_line(&table.header())?;
    for line in lines {
        let cells = line.cells.iter().map(|cell| format!("{:.decimals$}", value(cell)));
        let cells: Vec<String> = std::iter::once(line.searches.to_string()).chain(cells).collect();
        print_line(&table.line(&cells))?;
    }
    Ok(())
}

/// Reads of a search that is alone, by list and width.
fn print_lists(args: &ProfileArgs, line: &WidthCells) -> Result<()> {
    print_line(&format!("\nreads by list and width, {} searches", line.searches))?;
    let table = table_of("list", args);
    print_line(&table.header())?;
    for (i, list) in args.lists.iter().enumerate() {
        let cells = line.cells.iter().map(|cell| format!("{:.1}", cell.by_list[i]));
        let cells: Vec<String> = std::iter::once(list.to_string()).chain(cells).collect();
        print_line(&table.line(&cells))?;
    }
    Ok(())
}

/// A column for what differs from line to line, and one for each width.
fn table_of(first: &str, args: &ProfileArgs) -> Table {
    let widths: Vec<String> = args.try_widths.iter().map(u16::to_string).collect();
    let titles: Vec<&str> =
        std::iter::once(first).chain(widths.iter().map(String::as_str)).collect();
    Table::new(&titles)
}

fn print_tables(args: &ProfileArgs, lines: &[WidthCells], table: &WidthTable) -> Result<()> {
    print_figure(args, lines, ("queries a second", 0, |c| c.qps))?;
    print_figure(args, lines, ("mean us", 0, |c| c.mean_us))?;
    print_figure(args, lines, ("p99 us", 0, |c| c.p99_us))?;
    print_figure(args, lines, ("reads", 1, |c| c.reads))?;
    print_lists(args, &lines[0])?;
    let steps: Vec<String> =
        table.steps().iter().map(|(n, width)| format!("from {n}: {width}")).collect();
    print_line(&format!("\nwidths by searches: {}", steps.join(", ")))
}

fn as_json(args: &ProfileArgs, lines: &[WidthCells], table: &WidthTable) -> serde_json::Value {
    let cells: Vec<_> = lines
        .iter()
        .flat_map(|line| {
            line.cells.iter().zip(&args.try_widths).map(|(c, width)| {
                json!({
                    "searches": line.searches, "width": width, "qps": rounded(c.qps, 1),
                    "mean_us": rounded(c.mean_us, 1), "p99_us": rounded(c.p99_us, 1),
                    "reads": rounded(c.reads, 2),
                    "reads_by_list": c.by_list.iter().map(|&r| rounded(r, 2)).collect::<Vec<_>>(),
                })
            })
        })
        .collect();
    json!({ "recall": args.recall, "lists": args.lists, "cells": cells, "widths": table.steps() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_dealt_to_threads_evenly() {
        let one = settings(1, 8).unwrap();
        assert_eq!((one.threads, one.in_flight, one.policy.width.max()), (1, 1, 8));
        let many = settings(64, 2).unwrap();
        assert!(many.threads * many.in_flight >= 64);
        assert!(matches!(many.policy.by_load, ByLoad::Table(_)));
    }
}
