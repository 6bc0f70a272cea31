//! Looks at every input row before any work is done on it.

use rayon::prelude::*;

use super::error::BuildError;
use super::progress::{Progress, Stage};
use crate::distance::{Kernel, Op};
use crate::types::{Metric, RowId, VectorSet, find_component};

const ROWS_PER_TASK: usize = 4096;

/// Refuses an input that no index can be built of, naming the first row that is wrong.
pub(crate) fn check_rows(
    set: VectorSet<'_>,
    metric: Metric,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let (rows, ty) = (set.rows(), set.vector_type());
    if !ty.takes_metric(metric) {
        return Err(BuildError::Metric { ty, metric });
    }
    if rows == 0 {
        return Err(BuildError::Empty);
    }
    if rows >= u32::MAX as usize {
        return Err(BuildError::TooManyRows { rows: rows as u64 });
    }
    progress.stage(Stage::Check, rows as u64);
    let first_wrong = (0..rows.div_ceil(ROWS_PER_TASK)).into_par_iter().find_map_first(|task| {
        let last = ((task + 1) * ROWS_PER_TASK).min(rows);
        let found = (task * ROWS_PER_TASK..last).find_map(|row| check_row(set, row, metric));
        progress.advance((last - task * ROWS_PER_TASK) as u64);
        found
    });
    first_wrong.map_or(Ok(()), Err)
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

fn check_row(set: VectorSet<'_>, row: usize, metric: Metric) -> Option<BuildError> {
    let bytes = set.row(row);
    let row = row as u64;
    let ty = set.vector_type();
    let not_finite =
        if ty.is_float() { find_component(bytes, ty, |x| !x.is_finite()) } else { None };
    if let Some(value) = not_finite {
        return Some(BuildError::NotFinite { row, value });
    }
    // As the kernels see it: squares that vanish make the norm zero.
    let zero =
        metric == Metric::Cosine && Kernel::new(Op::Dot, ty, set.dim()).squared_norm(bytes) == 0.0;
    zero.then_some(BuildError::ZeroVector { row })
}
