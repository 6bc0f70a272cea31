//! The exact nearest rows of every query, on all cores.
//!
//! Tasks take a handful of queries each and walk the base in blocks that stay in cache while
//! all of the task's queries look at them. Rows come in ascending order and replace a kept one
//! only where they are strictly nearer, so that of equal distances the smaller id stays.

use std::sync::atomic::AtomicBool;

use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use pipeann_engine::distance::QueryDistance;
use pipeann_engine::types::{Metric, Unfit, VectorSet, unfit};
use pipeann_server::interrupt;
use rayon::prelude::*;

use crate::progress;
use crate::truth::Truth;

const QUERIES_PER_TASK: usize = 32;
/// About the half of a second-level cache.
const BLOCK_BYTES: usize = 512 << 10;

/// The exact `k` nearest rows of `base` for every query, ties to the smaller id.
///
/// # Errors
/// NaN or infinity among the vectors, a `k` beyond the rows, and the interruption.
pub fn exact(
    base: VectorSet<'_>,
    queries: VectorSet<'_>,
    k: usize,
    metric: Metric,
    cancel: &AtomicBool,
) -> Result<Truth> {
    let ty = base.vector_type();
    ensure!(ty.takes_metric(metric), "{ty} vectors are not compared by {metric}");
    ensure!(k > 0, "k is 0, but must be at least 1");
    ensure!(k <= base.rows(), "k is {k}, but the base has only {} rows", base.rows());
    ensure!(u32::try_from(base.rows()).is_ok(), "more rows than truth files can name");
    check_finite(base, "base")?;
    check_finite(queries, "query")?;
    let bar = progress::bar("truth", queries.rows() as u64, "queries");
    let starts: Vec<usize> = (0..queries.rows()).step_by(QUERIES_PER_TASK).collect();
    let task = NearestTask { base, queries, k, metric };
    let parts = starts
        .par_iter()
        .map(|&from| {
            let until = (from + QUERIES_PER_TASK).min(queries.rows());
            task.run(from..until, cancel, &bar)
        })
        .collect::<Result<Vec<_>, _>>()?;
    bar.finish_and_clear();
    let nearest = || parts.iter().flatten().flatten();
    let ids = nearest().map(|n| n.1).collect();
    let distances = nearest().map(|n| n.0).collect();
    Ok(Truth::new(queries.rows(), k, ids, distances))
}

/// Whose nearest rows are wanted, among which, and how many.
struct NearestTask<'a> {
    base: VectorSet<'a>,
    queries: VectorSet<'a>,
    k: usize,
    metric: Metric,
}

impl NearestTask<'_> {
    /// The nearest of the queries in `range`.
    fn run(
        &self,
        range: std::ops::Range<usize>,
        cancel: &AtomicBool,
        bar: &ProgressBar,
    ) -> Result<Vec<Vec<(f32, u32)>>, interrupt::Interrupted> {
        let &Self { base, queries, k, metric } = self;
        let n = range.len() as u64;
        let mut seekers: Vec<(QueryDistance<'_>, NearestSoFar)> = range
            .map(|q| {
                let distance = QueryDistance::new(metric, base.vector_type(), queries.row(q));
                (distance, NearestSoFar::new(k))
            })
            .collect();
        let block = (BLOCK_BYTES / base.row_bytes()).max(1);
        for first in (0..base.rows()).step_by(block) {
            interrupt::check(cancel)?;
            let last = (first + block).min(base.rows());
            for (distance, nearest) in &mut seekers {
                for row in first..last {
                    nearest.offer(distance.distance(base.row(row)), row as u32);
                }
            }
        }
        bar.inc(n);
        Ok(seekers.into_iter().map(|(_, nearest)| nearest.finish()).collect())
    }
}

/// The `k` nearest of the rows offered so far, which come in ascending order.
struct NearestSoFar {
    kept: Vec<(f32, u32)>,
    k: usize,
    /// Rows at this distance or beyond cannot enter.
    bound: f32,
}

impl NearestSoFar {
    fn new(k: usize) -> Self {
        Self { kept: Vec::with_capacity(Self::room(k)), k, bound: f32::INFINITY }
    }

    fn room(k: usize) -> usize {
        2 * k + 64
    }

    #[inline]
    fn offer(&mut self, distance: f32, row: u32) {
        if distance < self.bound || self.kept.len() < self.k {
            self.kept.push((distance, row));
            if self.kept.len() == Self::room(self.k) {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        let order = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        self.kept.select_nth_unstable_by(self.k - 1, order);
        self.kept.truncate(self.k);
        self.bound = self.kept[self.k - 1].0;
    }

    fn finish(mut self) -> Vec<(f32, u32)> {
        self.kept.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.kept.truncate(self.k);
        self.kept
    }
}

fn check_finite(set: VectorSet<'_>, what: &str) -> Result<()> {
    let ty = set.vector_type();
    let rows = (0..set.rows()).into_par_iter();
    match rows.find_map_first(|row| unfit(set.row(row), ty).map(|why| (row, why))) {
        None => Ok(()),
        Some((row, Unfit::NotFinite(_))) => anyhow::bail!("{what} {row} holds NaN or infinity"),
        Some((row, Unfit::Norm(norm))) => {
            anyhow::bail!("{what} {row} has a squared norm of {norm:e}, more than an f32 holds")
        }
    }
}

#[cfg(test)]
mod tests {
    use pipeann_engine::types::VectorType;

    use super::*;

    fn truth(metric: Metric, base: &[u8], query: &[u8], k: usize) -> Result<Vec<u32>> {
        let set = |b| VectorSet::new(b, 2, VectorType::U8).unwrap();
        let truth = exact(set(base), set(query), k, metric, &AtomicBool::new(false))?;
        Ok(truth.ids().to_vec())
    }

    #[test]
    fn ties_go_to_the_smaller_id_in_any_amount() {
        let base = [[1, 1]; 500].concat();
        let ids = truth(Metric::L2, &base, &[0, 0, 9, 9], 3).unwrap();
        assert_eq!(ids, [0, 1, 2, 0, 1, 2]);
        let mut base = base;
        base.extend([0, 0]);
        assert_eq!(truth(Metric::L2, &base, &[0, 0], 3).unwrap(), [500, 0, 1]);
    }

    #[test]
    fn each_metric_orders_as_it_says() {
        let base = [1, 0, 9, 9, 0, 1];
        assert_eq!(truth(Metric::L2, &base, &[2, 0], 3).unwrap(), [0, 2, 1]);
        assert_eq!(truth(Metric::InnerProduct, &base, &[2, 0], 3).unwrap(), [1, 0, 2]);
        assert_eq!(truth(Metric::Cosine, &base, &[2, 0], 3).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn what_cannot_be_answered_is_refused() {
        let base = [1, 0, 9, 9];
        let error = truth(Metric::L2, &base, &[2, 0], 3).unwrap_err().to_string();
        assert!(error.contains("only 2 rows"), "{error}");
        let nan = [1.0, f32::NAN].map(f32::to_le_bytes).concat();
        let set = VectorSet::new(&nan, 1, VectorType::F32).unwrap();
        let error = exact(set, set, 1, Metric::L2, &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("base 1 holds NaN"), "{error}");
        let ok = VectorSet::new(&base, 2, VectorType::U8).unwrap();
        let stopped = exact(ok, ok, 1, Metric::L2, &AtomicBool::new(true)).unwrap_err();
        assert!(stopped.is::<interrupt::Interrupted>());
    }
}
