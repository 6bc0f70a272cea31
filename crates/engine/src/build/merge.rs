//! The lists of shards become one graph.
//!
//! Each row has two lists, nearest first. They are taken in turn, nearest edges first, until the
//! degree is reached: so the near edges of both are kept, and of the far ones as many as fit.

use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use super::progress::{Progress, check_cancel};
use super::shards::Shards;
use super::site::Site;
use super::spill::{Spill, SpillReader, SpillWriter};

/// Rows between looks at whether to stop.
const STEP: usize = 1 << 14;

/// Merges the lists of `shards`, of which each holds those of its rows in their order.
pub(crate) fn merge(
    site: &Site,
    shards: &Shards,
    lists: &[Spill],
    (rows, degree): (usize, usize),
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Spill, BuildError> {
    let readers: Result<Vec<SpillReader<'_>>, _> = lists.iter().map(Spill::reader).collect();
    let mut readers = readers?;
    let mut out = SpillWriter::create(site, "merged", degree)?;
    let (mut one, mut other, mut edges) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        if row % STEP == 0 {
            check_cancel(cancel)?;
        }
        let [first, second] = shards.of(row);
        one.clear();
        other.clear();
        readers[usize::from(first)].next(&mut one)?;
        readers[usize::from(second)].next(&mut other)?;
        take_in_turn(&one, &other, degree, &mut edges);
        out.push(edges.iter().copied())?;
        progress.advance(1);
    }
    out.finish()
}

/// Words of a neighbour in a list that is to be merged by distance: its number and the distance.
pub(crate) const NEAR_WORDS: usize = 2;

/// Merges near neighbours of `shards`: the `near` nearest of each row in either of its two.
pub(crate) fn merge_nearest(
    site: &Site,
    shards: &Shards,
    lists: &[Spill],
    (rows, near): (usize, usize),
    cancel: &AtomicBool,
) -> Result<Spill, BuildError> {
    let readers: Result<Vec<SpillReader<'_>>, _> = lists.iter().map(Spill::reader).collect();
    let mut readers = readers?;
    let mut out = SpillWriter::create(site, "nearest", near)?;
    let (mut words, mut nearest) = (Vec::new(), Vec::new());
    for row in 0..rows {
        if row % STEP == 0 {
            check_cancel(cancel)?;
        }
        words.clear();
        for shard in shards.of(row) {
            readers[usize::from(shard)].next(&mut words)?;
        }
        nearest_words(&words, near, &mut nearest);
        out.push(nearest.iter().map(|&(_, to)| to))?;
    }
    out.finish()
}

/// The nearest of some neighbours with distances, each once.
fn nearest_words(words: &[u32], near: usize, out: &mut Vec<(f32, u32)>) {
    let mut all: Vec<(f32, u32)> =
        words.as_chunks::<NEAR_WORDS>().0.iter().map(|&[to, d]| (f32::from_bits(d), to)).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    out.clear();
    for candidate in all {
        if out.len() < near && out.iter().all(|known| known.1 != candidate.1) {
            out.push(candidate);
        }
    }
}

fn take_in_turn(one: &[u32], other: &[u32], degree: usize, out: &mut Vec<u32>) {
    out.clear();
    for rank in 0..one.len().max(other.len()) {
        for edge in [one.get(rank), other.get(rank)].into_iter().flatten() {
            if out.len() < degree && !out.contains(edge) {
                out.push(*edge);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_two_shards_come_once_and_in_order() {
        let word = |to: u32, distance: f32| [to, distance.to_bits()];
        let words = [word(7, 1.0), word(3, 2.5), word(5, 0.5), word(7, 1.0), word(4, 9.0)].concat();
        let mut out = Vec::new();
        nearest_words(&words, 3, &mut out);
        assert_eq!(out, [(0.5, 5), (1.0, 7), (2.5, 3)]);
    }

    #[test]
    fn lists_are_taken_in_turn_without_repetition() {
        let mut out = Vec::new();
        take_in_turn(&[1, 2, 3, 4], &[2, 5], 10, &mut out);
        assert_eq!(out, [1, 2, 5, 3, 4]);
        take_in_turn(&[1, 2, 3, 4], &[5, 6, 7, 8], 4, &mut out);
        assert_eq!(out, [1, 5, 2, 6]);
        take_in_turn(&[], &[5], 4, &mut out);
        assert_eq!(out, [5]);
    }
}
