//! The medoid: the row nearest to the mean, where searches without a head index start.

use crate::types::{Metric, VectorSet};

/// Rows looked at; beyond this a stride through the set stands for all of it.
const SAMPLE_ROWS: usize = 65_536;

/// The row nearest to the mean of `set` (of its normalised rows where the metric normalises).
///
/// Sets of more than 65,536 rows are sampled evenly.
///
/// # Panics
/// Where `set` is empty.
pub fn medoid(set: VectorSet<'_>, metric: Metric) -> u32 {
    assert!(set.rows() > 0, "a medoid needs a row");
    let stride = set.rows().div_ceil(SAMPLE_ROWS);
    let mut row = vec![0.0f32; set.dim()];
    let load = |i: usize, row: &mut [f32]| {
        set.row_f32(i, row);
        if metric.normalises() {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            row.iter_mut().for_each(|x| *x /= norm.max(f32::MIN_POSITIVE));
        }
    };
    let mut mean = vec![0.0f64; set.dim()];
    let sampled = (0..set.rows()).step_by(stride);
    let count = sampled.len() as f64;
    for i in sampled.clone() {
        load(i, &mut row);
        mean.iter_mut().zip(&row).for_each(|(m, &x)| *m += f64::from(x) / count);
    }
    let mut best = (f64::INFINITY, 0);
    for i in sampled {
        load(i, &mut row);
        let d: f64 = mean.iter().zip(&row).map(|(m, &x)| (m - f64::from(x)).powi(2)).sum();
        if d < best.0 {
            best = (d, i);
        }
    }
    best.1 as u32
}
