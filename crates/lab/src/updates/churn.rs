//! `pipeann-lab updates churn`: all rows replaced, again and again, in small steps.
//!
//! Rows are numbered on and on, so the live ones are always a range. With `same` the vectors come
//! back under new row ids; with `other` the next rows of the base file take their place, and begin
//! again at the first when the file ends.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use pipeann_cli::exact::exact;
use pipeann_cli::vectors_file::{VectorsFile, check_same_shape};
use pipeann_engine::types::{Metric, RowId, VectorSet};
use pipeann_engine::update::LiveIndex;
use pipeann_server::interrupt;
use serde_json::json;

use super::curve::{K, curve, print};
use super::load::{LinkLoad, LinkLoadArgs, search_beside};
use super::opening::LiveIndexArgs;

/// Replace all rows of an index in steps, several times over, and measure after each time
///
/// The index holds the first rows of the base file, compared by L2, and is changed. A result is
/// printed for each replacement.
#[derive(Debug, Args)]
pub(crate) struct ChurnArgs {
    #[command(flatten)]
    index: LiveIndexArgs,
    /// The vectors
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Queries, of the same type and dimension
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// What the vectors are replaced by
    #[arg(long)]
    by: Successors,
    /// How often all rows are replaced
    #[arg(long, default_value_t = 1)]
    times: u64,
    /// Share of the rows replaced in a step
    #[arg(long, default_value_t = 0.01)]
    step: f64,
    /// Candidate lists
    #[arg(long, value_delimiter = ',', default_value = "10,12,15,20,25,30,40")]
    list: Vec<usize>,
    #[command(flatten)]
    load: LinkLoadArgs,
    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

/// What rows are replaced by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Successors {
    /// The same vectors under new row ids
    Same,
    /// The next vectors of the file
    Other,
}

/// Runs the command.
pub(crate) fn run(args: &ChurnArgs) -> Result<()> {
    ensure!(args.step > 0.0 && args.step <= 1.0, "--step must be above 0 and at most 1");
    let (base, queries) = (VectorsFile::open(&args.base)?, VectorsFile::open(&args.queries)?);
    let index = args.index.open()?;
    for file in [&base, &queries] {
        check_same_shape(file, (index.dim(), index.vector_type()), &args.index.index.index)?;
    }
    let rows = index.rows();
    let parts = base.rows() as u64 / rows.max(1);
    ensure!(rows > 0 && parts > 0, "{} must hold the index's rows", args.base.display());
    let parts = if args.by == Successors::Same { 1 } else { parts };
    let cancel = interrupt::flag()?;
    let (base, queries) = (base.set(), queries.set());
    let churn = Churn { args, rows, parts, base, queries, cancel: &cancel };
    let mut load = LinkLoad::new(&args.load, &index);
    (1..=args.times).try_for_each(|time| churn.replace(time, &index, &mut load))
}

struct Churn<'a> {
    args: &'a ChurnArgs,
    rows: u64,
    /// Parts of the base file that take turns.
    parts: u64,
    base: VectorSet<'a>,
    queries: VectorSet<'a>,
    cancel: &'a AtomicBool,
}

impl<'a> Churn<'a> {
    fn vector(&self, row: u64) -> &'a [u8] {
        self.base.row((row % (self.parts * self.rows)) as usize)
    }

    /// The part of the base file that is live when all rows were replaced `time` times.
    fn part(&self, time: u64) -> VectorSet<'a> {
        let part_bytes = self.rows as usize * self.base.row_bytes();
        let from = (time % self.parts) as usize * part_bytes;
        let bytes = &self.base.bytes()[from..from + part_bytes];
        VectorSet::new(bytes, self.base.dim(), self.base.vector_type()).expect("whole rows")
    }

    fn replace(&self, time: u64, index: &LiveIndex, load: &mut LinkLoad<'_>) -> Result<()> {
        let (from, until) = ((time - 1) * self.rows, time * self.rows);
        let (first_live, done) = (AtomicU64::new(from), AtomicBool::new(false));
        let searched = std::thread::scope(|s| {
            let searcher = s.spawn(|| search_beside(index, self.queries, &first_live, &done));
            let changed = self.steps(from..until, index, &first_live, load);
            done.store(true, Ordering::Relaxed);
            let searched = searcher.join().expect("searches do not panic");
            changed.and(searched)
        })?;
        let load = load.finish()?;
        let truth = exact(self.part(time), self.queries, K, Metric::L2, self.cancel)?;
        let opened = &self.args.index.index;
        let curve = curve(opened, self.queries, &truth, until, &self.args.list)?;
        let result = json!({
            "replacement": time, "part": time % self.parts, "rows": self.rows,
            "searched_beside": searched, "load": load, "curve": curve,
        });
        print(&result, self.args.json)
    }

    fn steps(
        &self,
        rows: std::ops::Range<u64>,
        index: &LiveIndex,
        first_live: &AtomicU64,
        load: &mut LinkLoad<'_>,
    ) -> Result<()> {
        let step = ((self.rows as f64 * self.args.step) as u64).max(1);
        for from in rows.clone().step_by(step as usize) {
            interrupt::check(self.cancel)?;
            let until = (from + step).min(rows.end);
            for row in from..until {
                ensure!(index.delete(RowId(row))?, "row {row} was not there");
            }
            first_live.store(until, Ordering::Release);
            load.insert(from + self.rows..until + self.rows, |row| self.vector(row))?;
            load.upkeep()?;
        }
        Ok(())
    }
}
