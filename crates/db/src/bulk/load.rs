//! The load itself: batches from the source to the collection, with progress.

use std::ops::ControlFlow;
use std::time::Duration;

use super::error::LoadError;
use super::estimate::estimate;
use super::indexes::{IndexProgress, build_indexes};
use super::source::BatchSource;
use crate::collection::Collection;

/// Rows of the first batch, while it is not known how large rows are: at the most that a row can
/// have, they fit a record of the log.
const FIRST_BATCH_ROWS: u64 = 1024;
/// A batch has at most this many times the rows of the one before.
const GROWTH: u64 = 8;
const MAX_BATCH_ROWS: u64 = 1 << 20;
const MAX_BATCH_BYTES: u64 = 48 << 20;

/// How a load is made.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Name of the load, by which it is continued.
    pub name: String,
    /// The partition; the default one, or where the partition key says, unless given.
    pub partition: Option<String>,
    /// Bytes of log that a batch should take, at most 48 MiB. A batch is in memory about five
    /// times while it is written.
    pub batch_bytes: u64,
    /// Whether to build the indexes that are declared, when all rows are there, and wait for them.
    pub build_indexes: bool,
}

impl LoadOptions {
    /// A load of this name, into the default partition, by batches of 8 MiB, with its indexes.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), partition: None, batch_bytes: 8 << 20, build_indexes: true }
    }
}

/// How far a load has come.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadProgress {
    /// Rows of the source that are in the collection, those of earlier attempts included.
    pub rows: u64,
    /// Of these, rows that earlier attempts loaded.
    pub resumed_at: u64,
    /// Rows of the source, where that is known.
    pub total: Option<u64>,
    /// Rows a second of this attempt so far.
    pub rows_per_second: f64,
    /// Time left for the rows, where their number is known.
    pub left: Option<Duration>,
    /// The index that is being built, when all rows are there.
    pub index: Option<IndexProgress>,
}

/// Who watches a load: its clock and its reader.
pub trait LoadWatch {
    /// Time since some moment; never less than before.
    fn elapsed(&self) -> Duration;

    /// Is told how far the load has come, after each batch and while an index is built. It breaks
    /// off where it should end.
    fn progress(&mut self, progress: &LoadProgress) -> ControlFlow<()>;

    /// Waits a moment, some tenths of a second, before it is told again how far an index is.
    fn pause(&mut self);
}

/// What a load did.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadReport {
    /// Rows of the source, all of them in the collection.
    pub rows: u64,
    /// Of these, rows that earlier attempts loaded; as many as `rows` where the load had ended
    /// before.
    pub resumed_at: u64,
    /// Bytes that this attempt wrote to the log.
    pub logged_bytes: u64,
    /// Time that this attempt took for the rows.
    pub rows_time: Duration,
    /// Time that this attempt took for the indexes.
    pub index_time: Duration,
    /// Names of the indexes that were built.
    pub indexes: Vec<String>,
}

/// Loads a source, or the rest of it where the load of this name was begun before. Other writes
/// and reads go on meanwhile; rows are visible batch by batch.
///
/// # Errors
/// [`LoadError`]; what was loaded before it stays.
pub fn load(
    collection: &Collection,
    source: &mut dyn BatchSource,
    options: &LoadOptions,
    watch: &mut dyn LoadWatch,
) -> Result<LoadReport, LoadError> {
    let mut load = collection.begin_load(&options.name, source.identity())?;
    let (resumed_at, total) = (load.rows(), source.rows());
    if let Some(found) = total.filter(|&total| total < resumed_at) {
        return Err(LoadError::Shorter { found, loaded: resumed_at });
    }
    let started = watch.elapsed();
    let mut report = LoadReport {
        rows: resumed_at,
        resumed_at,
        logged_bytes: 0,
        rows_time: Duration::ZERO,
        index_time: Duration::ZERO,
        indexes: Vec::new(),
    };
    let ended = load.finished();
    if !ended {
        estimate(collection, total.map(|total| total - resumed_at))?.check_space(collection)?;
        source.seek(resumed_at)?;
    }
    let mut most = FIRST_BATCH_ROWS;
    while let Some(batch) = if ended { None } else { source.next(count(most))? } {
        let rows = batch.rows as u64;
        let outcome = load.insert(batch, options.partition.as_deref());
        let outcome = outcome.map_err(|error| LoadError::of_batch(error, report.rows))?;
        report.rows += rows;
        report.logged_bytes += outcome.logged_bytes;
        most = rows_of_next(options, rows, outcome.logged_bytes);
        let elapsed = watch.elapsed().saturating_sub(started);
        if watch.progress(&progress(&report, total, elapsed)).is_break() {
            return Err(LoadError::Interrupted { rows: report.rows });
        }
    }
    report.rows_time = watch.elapsed().saturating_sub(started);
    if !ended {
        load.finish()?;
    }
    if options.build_indexes {
        let rows = progress(&report, total, report.rows_time);
        build_indexes(collection, &mut report, &rows, watch)?;
    }
    Ok(report)
}

/// Rows of the next batch, after one of `rows` rows that took `bytes`.
fn rows_of_next(options: &LoadOptions, rows: u64, bytes: u64) -> u64 {
    let wanted = options.batch_bytes.min(MAX_BATCH_BYTES);
    let fitting = u128::from(wanted) * u128::from(rows) / u128::from(bytes.max(1));
    let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
    fitting.clamp(1, rows.saturating_mul(GROWTH).min(MAX_BATCH_ROWS))
}

fn progress(report: &LoadReport, total: Option<u64>, elapsed: Duration) -> LoadProgress {
    let new = report.rows - report.resumed_at;
    let seconds = elapsed.as_secs_f64();
    let rows_per_second = if seconds > 0.0 { new as f64 / seconds } else { 0.0 };
    let left = total.filter(|_| rows_per_second > 0.0).map(|total| {
        Duration::from_secs_f64(total.saturating_sub(report.rows) as f64 / rows_per_second)
    });
    LoadProgress {
        rows: report.rows,
        resumed_at: report.resumed_at,
        total,
        rows_per_second,
        left,
        index: None,
    }
}

fn count(rows: u64) -> usize {
    usize::try_from(rows).expect("bounded by the rows of a batch")
}
