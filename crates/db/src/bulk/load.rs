//! The load itself: batches from the source to the collection, with progress.

use std::time::Duration;

use super::error::LoadError;
use super::estimate::{estimate, largest_row_bytes};
use super::gather::{BatchGathering, fitting};
use super::indexes::build_indexes;
use super::options::LoadOptions;
use super::progress::{LoadProgress, LoadReport, LoadWatch};
use super::source::BatchSource;
use crate::collection::Collection;

/// Rows of the first batch at most, while it is not known how large rows are.
const FIRST_BATCH_ROWS: u64 = 1024;
/// A batch has at most this many times the rows of the one before.
const GROWTH: u64 = 8;
const MAX_BATCH_ROWS: u64 = 1 << 20;
/// A batch of a quarter more, with what surrounds its rows, is a record that the log takes.
const MAX_BATCH_BYTES: u64 = 48 << 20;

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
    let wanted = options.batch_bytes.clamp(1, MAX_BATCH_BYTES);
    let mut source = BatchGathering::new(source, largest_row_bytes(&collection.entry()?.schema));
    let mut most = FIRST_BATCH_ROWS;
    if !ended {
        let estimate = estimate(collection, total.map(|total| total - resumed_at))?;
        estimate.check_space(collection)?;
        most = fitting(wanted, 1, estimate.row_bytes).min(FIRST_BATCH_ROWS);
        source.seek(resumed_at)?;
    }
    while !ended && let Some(batch) = source.next(most, wanted)? {
        let rows = batch.rows as u64;
        let outcome = load.insert(batch, options.partition.as_deref());
        let outcome = outcome.map_err(|error| LoadError::of_batch(error, report.rows))?;
        report.rows += rows;
        report.logged_bytes += outcome.logged_bytes;
        most = fitting(wanted, rows, outcome.logged_bytes);
        most = most.min(rows.saturating_mul(GROWTH)).min(MAX_BATCH_ROWS);
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
