//! Rows that come into partitions: how many in each, however they lie.

use std::sync::atomic::AtomicBool;

use super::Rows;
use crate::build::partition::assign;
use crate::build::partition_bounds::most_rows;
use crate::build::{NONE, Nearest, PartitionBy};
use crate::distance::PairDistance;
use crate::types::{Metric, VectorSet, VectorType};

static GO: AtomicBool = AtomicBool::new(false);

/// Most rows in one crowd, some of them equal, and others far from each other.
fn skewed(rows: usize) -> Vec<u8> {
    let spread = Rows::clustered(rows, 8, VectorType::U8, 5);
    let mut bytes = spread.bytes.clone();
    for row in 0..rows * 7 / 10 {
        let crowded = &mut bytes[row * 8..(row + 1) * 8];
        crowded.iter_mut().for_each(|x| *x = if row.is_multiple_of(3) { 20 } else { 20 + *x / 64 });
    }
    bytes
}

fn nearest(pair: &PairDistance<'_>, rows: usize) -> Nearest {
    let mut ids = Vec::with_capacity(rows * 10);
    for row in 0..rows {
        let others = (0..rows).filter(|other| *other != row);
        let mut all: Vec<_> = others.map(|to| (pair.distance(row, to), to as u32)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        ids.extend(all.into_iter().map(|near| near.1).chain([NONE; 10]).take(10));
    }
    Nearest::from_lists(ids, 10)
}

#[test]
fn partitions_of_skewed_rows_have_no_more_than_their_share_and_a_twentieth() {
    let rows = 1500;
    let bytes = skewed(rows);
    let set = VectorSet::new(&bytes, 8, VectorType::U8).expect("whole rows");
    for metric in [Metric::L2, Metric::InnerProduct] {
        let pair = PairDistance::new(metric, set);
        let nearest = nearest(&pair, rows);
        for by in [PartitionBy::Graph, PartitionBy::Kmeans, PartitionBy::Random] {
            for count in [2, 5, 10, 13, 100] {
                let members = assign(&pair, &nearest, (count, by), 3, &GO).expect("not stopped");
                let mut all: Vec<u32> = members.concat();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..rows as u32), "{by:?}: each row once");
                let sizes: Vec<usize> = members.iter().map(Vec::len).collect();
                let most = most_rows(rows, count);
                assert!(sizes.iter().all(|rows| (1..=most).contains(rows)), "{by:?}: {sizes:?}");
                // Centres draw as many rows each, and leave nobody with what is left.
                let least = rows as f64 / count as f64 * 0.94 - 1.0;
                let even = sizes.iter().all(|&rows| rows as f64 >= least);
                assert!(by == PartitionBy::Graph || even, "{by:?}: {sizes:?}");
            }
        }
    }
}
