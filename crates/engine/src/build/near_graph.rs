//! The graph of near neighbours as it is cut: in both directions, mutual neighbours of twice the
//! weight, in memory.

use super::error::BuildError;
use super::nearest::Nearest;
use super::settle::{TellRow, WeightedLists};

/// Tells each pair of nodes and its weight to what it is given; the same ones each time it is called.
type Pairs<'a> = dyn Fn(&mut dyn FnMut(usize, usize, u32)) + 'a;

/// Offsets, neighbours and weights of each node, in the integers that METIS takes.
pub(crate) struct NearGraph {
    pub(crate) offsets: Vec<i32>,
    pub(crate) neighbours: Vec<i32>,
    pub(crate) weights: Vec<i32>,
}

impl NearGraph {
    /// Of pairs with weights, each of which counts in both directions; those of a pair that comes
    /// several times add up. `None` where there are more pairs than are counted.
    pub(crate) fn of_pairs(rows: usize, pairs: &Pairs<'_>) -> Option<Self> {
        let mut next = vec![0u64; rows + 2];
        pairs(&mut |a, b, _| {
            next[a + 2] += 1;
            next[b + 2] += 1;
        });
        (2..next.len()).for_each(|at| next[at] += next[at - 1]);
        let all = usize::try_from(i32::try_from(next[rows + 1]).ok()?).ok()?;
        let mut entries = vec![(0u32, 0u32); all];
        pairs(&mut |a, b, weight| {
            for (from, to) in [(a, b), (b, a)] {
                entries[next[from + 1] as usize] = (to as u32, weight);
                next[from + 1] += 1;
            }
        });
        let (mut offsets, mut kept) = (Vec::with_capacity(rows + 1), 0);
        for row in 0..rows {
            offsets.push(kept as i32);
            let range = next[row] as usize..next[row + 1] as usize;
            entries[range.clone()].sort_unstable();
            let first = kept;
            for at in range {
                let (to, weight) = entries[at];
                if kept > first && entries[kept - 1].0 == to {
                    entries[kept - 1].1 += weight;
                } else {
                    entries[kept] = (to, weight);
                    kept += 1;
                }
            }
        }
        offsets.push(kept as i32);
        entries.truncate(kept);
        let neighbours = entries.iter().map(|e| e.0 as i32).collect();
        Some(Self { offsets, neighbours, weights: entries.iter().map(|e| e.1 as i32).collect() })
    }

    /// Of the first `near` neighbours of every node.
    pub(crate) fn new(nearest: &Nearest, near: usize) -> Option<Self> {
        Self::of_pairs(nearest.nodes(), &|pair| {
            for row in 0..nearest.nodes() {
                nearest.of(row).iter().take(near).for_each(|&to| pair(row, to as usize, 1));
            }
        })
    }
}

impl WeightedLists for NearGraph {
    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    fn each(&self, tell: &mut TellRow<'_>) -> Result<(), BuildError> {
        let mut list = Vec::new();
        for row in 0..self.rows() {
            let range = self.offsets[row] as usize..self.offsets[row + 1] as usize;
            let weights = self.weights[range.clone()].iter().map(|&w| w as u32);
            list.clear();
            list.extend(self.neighbours[range].iter().map(|&n| n as u32).zip(weights));
            tell(row as u32, &list)?;
        }
        Ok(())
    }
}
