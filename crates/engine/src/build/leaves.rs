//! Overlapping leaves: groups of near rows small enough to compare all with all.
//!
//! Rows go to the nearest of some leaders drawn at random, a few each, and groups that are too
//! large are carved again. What the border of one group tears apart another keeps together. (The partition of PiPNN, arXiv 2602.21247.)

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::progress::{Cancelled, Silent};
use super::random::Random;
use super::threads::{Shared, each_item};
use crate::distance::{PairDistance, Products};

/// How to carve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carving {
    /// The most rows of a leaf.
    pub(crate) leaf: usize,
    /// The most leaders that rows are compared with at once.
    pub(crate) leaders: usize,
    /// How many groups a row joins; of a group that is carved again it joins one part.
    pub(crate) spread: usize,
    /// Threads.
    pub(crate) threads: usize,
}

/// Mean rows of a group by the room of a leaf: random leaders draw unequal crowds.
const FILL: f64 = 0.5;
/// Rows compared with leaders at a time.
const BATCH: usize = 48;

/// Groups of `rows` (some rows of the set), each drawn by a leader; of them leaves are carved.
pub(crate) fn groups(
    pair: &PairDistance<'_>,
    rows: &[u32],
    carving: &Carving,
    random: &mut Random,
    cancel: &AtomicBool,
) -> Result<Vec<Vec<u32>>, Cancelled> {
    if rows.len() <= carving.leaf {
        return Ok(vec![rows.to_vec()]);
    }
    let leaders = Leaders::draw(pair, rows, carving, carving.spread, random);
    let spread = carving.spread.min(leaders.count);
    let joined: Vec<AtomicU32> = (0..rows.len() * spread).map(|_| AtomicU32::new(0)).collect();
    let assign = |nearest: &mut NearestLeaders, batch: usize| {
        let first = batch * BATCH;
        let rows = &rows[first..rows.len().min(first + BATCH)];
        nearest.find(pair, &leaders, rows, spread, |i, rank, leader| {
            joined[(first + i) * spread + rank].store(leader, Ordering::Relaxed);
        });
    };
    let batches = Shared::new(rows.len().div_ceil(BATCH), carving.threads).by(4);
    each_item(batches, NearestLeaders::default, assign, &Silent, cancel)?;
    let mut groups = vec![Vec::new(); leaders.count];
    for (leaders, &row) in joined.chunks_exact(spread).zip(rows) {
        leaders.iter().for_each(|l| groups[l.load(Ordering::Relaxed) as usize].push(row));
    }
    groups.retain(|group| !group.is_empty());
    Ok(groups)
}

/// Hands every leaf of `group` to `take`.
pub(crate) fn carve(
    pair: &PairDistance<'_>,
    group: &[u32],
    carving: &Carving,
    random: &mut Random,
    nearest: &mut NearestLeaders,
    take: &mut impl FnMut(&[u32]),
) {
    if group.len() <= carving.leaf {
        take(group);
        return;
    }
    let leaders = Leaders::draw(pair, group, carving, 1, random);
    let mut parts = vec![Vec::new(); leaders.count];
    for rows in group.chunks(BATCH) {
        nearest.find(pair, &leaders, rows, 1, |i, _, leader| {
            parts[leader as usize].push(rows[i]);
        });
    }
    for part in parts {
        // Copies of one vector are as near to one leader as to another, and all join the first.
        if part.len() > group.len() - group.len() / 8 {
            part.chunks(carving.leaf).for_each(&mut *take);
        } else if !part.is_empty() {
            carve(pair, &part, carving, random, nearest, take);
        }
    }
}

/// Rows drawn as leaders, packed to be multiplied by others.
struct Leaders {
    packed: Vec<f32>,
    norms: Vec<f32>,
    products: Products,
    count: usize,
}

impl Leaders {
    fn draw(
        pair: &PairDistance<'_>,
        rows: &[u32],
        carving: &Carving,
        spread: usize,
        random: &mut Random,
    ) -> Self {
        let wanted = (rows.len() * spread) as f64 / (carving.leaf as f64 * FILL);
        let count = (wanted.ceil() as usize).clamp(2, carving.leaders).min(rows.len());
        let mut drawn: Vec<usize> = (0..count).map(|_| random.below(rows.len())).collect();
        drawn.sort_unstable();
        drawn.dedup();
        let dim = pair.expanded_dim();
        let mut expanded = vec![0.0; drawn.len() * dim];
        let places = expanded.chunks_exact_mut(dim).zip(&drawn);
        let norms = places.map(|(out, &at)| pair.expand(rows[at] as usize, out)).collect();
        let products = Products::new(dim);
        let mut packed = vec![0.0; products.packed_len(drawn.len())];
        products.pack(&expanded, &mut packed);
        Self { packed, norms, products, count: drawn.len() }
    }
}

/// Scratch for finding the nearest leaders of rows.
#[derive(Default)]
pub(crate) struct NearestLeaders {
    rows: Vec<f32>,
    norms: Vec<f32>,
    found: Vec<f32>,
    best: Vec<(f32, u32)>,
}

impl NearestLeaders {
    /// Calls `found` with position, rank and leader for the `spread` nearest of each row.
    fn find(
        &mut self,
        pair: &PairDistance<'_>,
        leaders: &Leaders,
        rows: &[u32],
        spread: usize,
        mut found: impl FnMut(usize, usize, u32),
    ) {
        expand_all(pair, rows, &mut self.rows, &mut self.norms);
        let width = leaders.packed.len() / pair.expanded_dim();
        self.found.resize(rows.len() * width, 0.0);
        leaders.products.products(&self.rows, &leaders.packed, &mut self.found);
        for (i, products) in self.found.chunks_exact_mut(width).enumerate() {
            let products = &mut products[..leaders.count];
            pair.of_products(self.norms[i], &leaders.norms, products);
            nearest_of(products, spread, &mut self.best);
            self.best.iter().enumerate().for_each(|(rank, &(_, l))| found(i, rank, l));
        }
    }
}

/// Expands `rows` one after the other into `out`, with their squared lengths.
pub(crate) fn expand_all(
    pair: &PairDistance<'_>,
    rows: &[u32],
    out: &mut Vec<f32>,
    norms: &mut Vec<f32>,
) {
    let dim = pair.expanded_dim();
    rows.iter().for_each(|&row| pair.prefetch(row as usize));
    out.resize(rows.len() * dim, 0.0);
    norms.clear();
    let places = out.chunks_exact_mut(dim).zip(rows);
    norms.extend(places.map(|(out, &row)| pair.expand(row as usize, out)));
}

/// The `k` smallest distances with their positions, smallest first, ties by position.
pub(crate) fn nearest_of(distances: &[f32], k: usize, best: &mut Vec<(f32, u32)>) {
    /// Distances looked at together, most of which are too large.
    const LOOK: usize = 16;
    best.clear();
    let mut worst = f32::INFINITY;
    for (i, some) in distances.chunks(LOOK).enumerate() {
        if !some.iter().fold(false, |any, &d| any | (d < worst)) {
            continue;
        }
        for (j, &d) in some.iter().enumerate().filter(|(_, d)| **d < f32::INFINITY) {
            if d >= worst {
                continue;
            }
            if best.len() == k {
                best.pop();
            }
            let at = best.partition_point(|b| b.0 <= d);
            best.insert(at, (d, (i * LOOK + j) as u32));
            if best.len() == k {
                worst = best.last().map_or(worst, |b| b.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Rows;
    use super::*;
    use crate::types::{Metric, VectorType};

    /// How many leaves each row stands in.
    fn leaves_of(rows: &Rows, carving: &Carving) -> Vec<usize> {
        let pair = PairDistance::new(Metric::L2, rows.set());
        let all: Vec<u32> = (0..rows.set().rows() as u32).collect();
        let (mut random, go) = (Random::new(1), AtomicBool::new(false));
        let groups = groups(&pair, &all, carving, &mut random, &go).expect("nobody cancels");
        let mut counts = vec![0; all.len()];
        for group in &groups {
            let mut nearest = NearestLeaders::default();
            carve(&pair, group, carving, &mut random, &mut nearest, &mut |leaf| {
                assert!(leaf.len() <= carving.leaf, "a leaf of {} rows", leaf.len());
                leaf.iter().for_each(|&row| counts[row as usize] += 1);
            });
        }
        counts
    }

    #[test]
    fn every_row_stands_in_as_many_leaves_as_it_joins_groups() {
        let carving = Carving { leaf: 100, leaders: 20, spread: 3, threads: 2 };
        let clustered = Rows::clustered(3000, 8, VectorType::U8, 1);
        assert!(leaves_of(&clustered, &carving).iter().all(|&leaves| leaves == 3));
    }

    #[test]
    fn copies_of_one_vector_are_carved_too() {
        let carving = Carving { leaf: 100, leaders: 20, spread: 3, threads: 1 };
        assert!(leaves_of(&Rows::equal(3000, 8), &carving).iter().all(|&leaves| leaves == 3));
    }

    #[test]
    fn the_nearest_come_first_and_ties_by_position() {
        let mut best = Vec::new();
        let distances: Vec<f32> = (0..40).map(|i| ((i * 7) % 20) as f32).collect();
        nearest_of(&distances, 3, &mut best);
        assert_eq!(best, [(0.0, 0), (0.0, 20), (1.0, 3)]);
        nearest_of(&[f32::INFINITY, 2.0], 3, &mut best);
        assert_eq!(best, [(2.0, 1)]);
    }
}
