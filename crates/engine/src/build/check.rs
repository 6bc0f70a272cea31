//! Looks at every input row before any work is done on it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rayon::prelude::*;

use super::error::BuildError;
use super::gather::in_pieces;
use super::progress::{Progress, Stage, check_cancel};
use super::source::RowSource;
use crate::types::{Metric, RowId, Unfit, VectorSet, VectorType, fit_squared_norm};

const ROWS_PER_TASK: usize = 4096;

/// Refuses an input that no index can be built of, naming the first row that is wrong. Answers with
/// the squared norm of the longest row, 0 unless they are of floats.
pub(crate) fn check_rows(
    set: VectorSet<'_>,
    metric: Metric,
    progress: &dyn Progress,
) -> Result<f64, BuildError> {
    check_shape(set.rows(), set.vector_type(), metric)?;
    progress.stage(Stage::Check, set.rows() as u64);
    check_part(set, 0, progress)
}

/// As [`check_rows`], of a source that is read in pieces.
pub(crate) fn check_source(
    source: &dyn RowSource,
    metric: Metric,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<f64, BuildError> {
    let (rows, ty) = (source.rows(), source.vector_type());
    check_shape(rows, ty, metric)?;
    progress.stage(Stage::Check, rows as u64);
    let mut longest = 0f64;
    in_pieces(source, |first, set| {
        check_cancel(cancel)?;
        longest = longest.max(check_part(set, first as u64, progress)?);
        Ok(())
    })?;
    Ok(longest)
}

/// Looks at rows of which the first is that of the number given.
fn check_part(
    set: VectorSet<'_>,
    first_row: u64,
    progress: &dyn Progress,
) -> Result<f64, BuildError> {
    let rows = set.rows();
    // The bits of floats that are not negative are ordered as they are.
    let longest = AtomicU64::new(0);
    let first_wrong = (0..rows.div_ceil(ROWS_PER_TASK)).into_par_iter().find_map_first(|task| {
        let (first, last) = (task * ROWS_PER_TASK, ((task + 1) * ROWS_PER_TASK).min(rows));
        let mut longest_here = 0f64;
        let found = (first..last).find_map(|row| match check_row(set, row, first_row) {
            Ok(squared_norm) => {
                longest_here = longest_here.max(squared_norm);
                None
            }
            Err(error) => Some(error),
        });
        longest.fetch_max(longest_here.to_bits(), Ordering::Relaxed);
        progress.advance((last - first) as u64);
        found
    });
    first_wrong.map_or(Ok(f64::from_bits(longest.into_inner())), Err)
}

fn check_shape(rows: usize, ty: VectorType, metric: Metric) -> Result<(), BuildError> {
    if !ty.takes_metric(metric) {
        return Err(BuildError::Metric { ty, metric });
    }
    if rows == 0 {
        return Err(BuildError::Empty);
    }
    if rows >= u32::MAX as usize {
        return Err(BuildError::TooManyRows { rows: rows as u64 });
    }
    Ok(())
}

/// Refuses row ids that a row map cannot hold in their order.
pub(crate) fn check_ids(rows: &[RowId]) -> Result<(), BuildError> {
    let refuse = |row: RowId, why| Err(BuildError::Rows { row: row.0, why });
    if let Some(pair) = rows.windows(2).find(|pair| pair[0] >= pair[1]) {
        return refuse(pair[1], "row ids ascend");
    }
    match rows.last() {
        Some(&last) if last.0 >= u64::from(u32::MAX) => {
            refuse(last, "row ids are below 4294967295")
        }
        _ => Ok(()),
    }
}

fn check_row(set: VectorSet<'_>, row: usize, first_row: u64) -> Result<f64, BuildError> {
    fit_squared_norm(set.row(row), set.vector_type()).map_err(|found| {
        let row = first_row + row as u64;
        match found {
            Unfit::NotFinite(value) => BuildError::NotFinite { row, value },
            Unfit::Norm(squared_norm) => BuildError::Norm { row, squared_norm },
        }
    })
}
