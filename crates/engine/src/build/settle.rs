//! Moves of rows between partitions, by passes over the lists of their neighbours from front to back.
//!
//! A pass sees each row once, with its neighbours' partitions as they are by then, so it works on
//! lists in a file as well as in memory: some bytes for each row are all it holds. It first relieves
//! partitions that hold too many rows, of those that lose least; then it moves rows to where more of
//! their neighbours are (Kernighan and Lin's gain, without its steps downhill), as far as there is
//! room. No partition becomes empty, or larger than the bound.

use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use super::partition_bounds::most_rows;
use super::progress::check_cancel;

/// Passes that look for rows to relieve a partition of, before any will do.
const RELIEFS: usize = 6;
/// A loss of so much or more counts as this.
const WORST: usize = 255;
/// Passes end when fewer than one row in so many moves.
const FEW: usize = 2000;
/// Rows between looks at whether to stop.
const STEP: u32 = 1 << 14;

/// What is told of a row: its number, and neighbours with weights. A neighbour may come twice.
pub(crate) type TellRow<'a> = dyn FnMut(u32, &[(u32, u32)]) -> Result<(), BuildError> + 'a;

/// Lists of weighted neighbours, the same in both directions, that are read from front to back.
pub(crate) trait WeightedLists {
    /// Number of rows.
    fn rows(&self) -> usize;

    /// Tells of every row, ascending.
    fn each(&self, tell: &mut TellRow<'_>) -> Result<(), BuildError>;
}

/// Rows in partitions, on the way to where they stay.
pub(crate) struct Settling<'a> {
    part_of: Vec<u16>,
    sizes: Vec<usize>,
    most: usize,
    tally: Tally,
    cancel: &'a AtomicBool,
}

/// Weights of a row's neighbours by their partition.
struct Tally {
    weights: Vec<u32>,
    touched: Vec<u16>,
}

impl Tally {
    fn take(&mut self, neighbours: &[(u32, u32)], part_of: &[u16]) {
        for part in self.touched.drain(..) {
            self.weights[part as usize] = 0;
        }
        for &(to, weight) in neighbours {
            let part = part_of[to as usize];
            let sum = &mut self.weights[part as usize];
            if *sum == 0 {
                self.touched.push(part);
            }
            *sum += weight;
        }
    }
}

impl<'a> Settling<'a> {
    /// `part_of` names the partition of each row, below `count`.
    pub(crate) fn new(part_of: Vec<u16>, count: usize, cancel: &'a AtomicBool) -> Self {
        let mut sizes = vec![0; count];
        part_of.iter().for_each(|&part| sizes[part as usize] += 1);
        let most = most_rows(part_of.len(), count);
        let tally = Tally { weights: vec![0; count], touched: Vec::new() };
        Self { part_of, sizes, most, tally, cancel }
    }

    /// The partition of each row.
    pub(crate) fn into_parts(self) -> Vec<u16> {
        self.part_of
    }

    /// Relieves those that are too large, then improves by at most so many passes.
    pub(crate) fn settle(
        &mut self,
        lists: &dyn WeightedLists,
        passes: usize,
    ) -> Result<(), BuildError> {
        self.relieve(lists)?;
        for _ in 0..passes {
            if self.improve(lists)? <= self.part_of.len() / FEW {
                break;
            }
        }
        Ok(())
    }

    /// The weight of all pairs of neighbours that are in two partitions, and of all pairs.
    #[cfg(test)]
    pub(crate) fn cut(&mut self, lists: &dyn WeightedLists) -> Result<(u64, u64), BuildError> {
        let (mut cut, mut all) = (0, 0);
        lists.each(&mut |row, neighbours| {
            self.tally.take(neighbours, &self.part_of);
            let own = self.tally.weights[self.part_of[row as usize] as usize];
            let sum: u64 = neighbours.iter().map(|n| u64::from(n.1)).sum();
            cut += sum - u64::from(own);
            all += sum;
            Ok(())
        })?;
        Ok((cut / 2, all / 2))
    }

    fn is_over(&self, part: u16) -> bool {
        self.sizes[part as usize] > self.most
    }

    /// Where most of the neighbours in the tally are, of all other partitions with room for one.
    fn best_other(&self, own: u16) -> Option<(u32, u16)> {
        let others = self.tally.touched.iter().filter(|&&part| part != own);
        let free = others.filter(|&&part| self.sizes[part as usize] < self.most);
        free.map(|&part| (self.tally.weights[part as usize], part)).max_by_key(|&(weight, part)| {
            (weight, std::cmp::Reverse((self.sizes[part as usize], part)))
        })
    }

    /// As [`best_other`](Self::best_other), and else the smallest.
    fn best_or_smallest(&self, own: u16) -> (u32, u16) {
        self.best_other(own).unwrap_or_else(|| {
            let smallest = (0..self.sizes.len()).min_by_key(|&part| self.sizes[part]);
            (0, smallest.expect("there are partitions") as u16)
        })
    }

    /// Where the row in the tally would go, and what is lost by that: an index into a histogram.
    fn loss(&self, own: u16) -> (usize, u16) {
        let (weight, to) = self.best_or_smallest(own);
        let loss = i64::from(self.tally.weights[own as usize]) - i64::from(weight);
        // A gain counts as no loss: all such go first.
        (loss.clamp(0, WORST as i64) as usize, to)
    }

    fn move_row(&mut self, row: u32, to: u16) {
        let own = &mut self.part_of[row as usize];
        self.sizes[*own as usize] -= 1;
        self.sizes[to as usize] += 1;
        *own = to;
    }

    /// Moves rows out of partitions that have too many, until none has.
    fn relieve(&mut self, lists: &dyn WeightedLists) -> Result<(), BuildError> {
        for round in 0..=RELIEFS {
            if (0..self.sizes.len()).all(|part| !self.is_over(part as u16)) {
                return Ok(());
            }
            // In the last round whatever comes first.
            let bound = if round < RELIEFS { self.bounds(lists)? } else { vec![] };
            lists.each(&mut |row, neighbours| {
                let own = self.part_of[row as usize];
                if row % STEP == 0 {
                    check_cancel(self.cancel)?;
                }
                if self.is_over(own) {
                    self.tally.take(neighbours, &self.part_of);
                    let (loss, to) = self.loss(own);
                    if bound.get(own as usize).is_none_or(|bound| loss <= *bound) {
                        self.move_row(row, to);
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// For each partition the loss up to which enough of its rows are willing to go.
    fn bounds(&mut self, lists: &dyn WeightedLists) -> Result<Vec<usize>, BuildError> {
        let mut willing = vec![vec![]; self.sizes.len()];
        lists.each(&mut |row, neighbours| {
            let own = self.part_of[row as usize];
            if row % STEP == 0 {
                check_cancel(self.cancel)?;
            }
            if self.is_over(own) {
                self.tally.take(neighbours, &self.part_of);
                let (loss, _) = self.loss(own);
                let willing: &mut Vec<usize> = &mut willing[own as usize];
                willing.resize(WORST + 1, 0);
                willing[loss] += 1;
            }
            Ok(())
        })?;
        let enough = |(part, willing): (usize, Vec<usize>)| {
            let mut excess = self.sizes[part].saturating_sub(self.most);
            let at = willing.iter().position(|&rows| {
                excess = excess.saturating_sub(rows);
                excess == 0
            });
            at.unwrap_or(WORST)
        };
        Ok(willing.into_iter().enumerate().map(enough).collect())
    }

    /// Moves rows to where more of their neighbours are, and of as many to where fewer rows are.
    /// Answers with how many moved.
    fn improve(&mut self, lists: &dyn WeightedLists) -> Result<usize, BuildError> {
        let mut moved = 0;
        lists.each(&mut |row, neighbours| {
            let own = self.part_of[row as usize];
            if row % STEP == 0 {
                check_cancel(self.cancel)?;
            }
            self.tally.take(neighbours, &self.part_of);
            let here = self.tally.weights[own as usize];
            let Some((there, to)) = self.best_other(own) else { return Ok(()) };
            let size = |part: u16| self.sizes[part as usize];
            let better = there > here || there == here && size(to) + 1 < size(own);
            if better && size(own) > 1 {
                self.move_row(row, to);
                moved += usize::from(there > here);
            }
            Ok(())
        })?;
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static GO: AtomicBool = AtomicBool::new(false);

    /// A ring in which each row has the four nearest as neighbours.
    struct Ring(u32);

    impl WeightedLists for Ring {
        fn rows(&self) -> usize {
            self.0 as usize
        }

        fn each(&self, tell: &mut TellRow<'_>) -> Result<(), BuildError> {
            let n = self.0;
            let beside = |row| [1, 2, n - 1, n - 2].map(|away| ((row + away) % n, 1));
            (0..n).try_for_each(|row| tell(row, &beside(row)))
        }
    }

    fn sizes(parts: &[u16], count: usize) -> Vec<usize> {
        (0..count).map(|part| parts.iter().filter(|&&p| p as usize == part).count()).collect()
    }

    #[test]
    fn crowded_partitions_give_rows_away_until_none_has_more_than_the_bound() {
        for count in [2, 3, 7, 50] {
            let mut settling = Settling::new(vec![0; 1000], count, &GO);
            settling.settle(&Ring(1000), 5).expect("lists in memory");
            let sizes = sizes(&settling.into_parts(), count);
            assert!(sizes.iter().all(|&rows| rows <= most_rows(1000, count)), "{sizes:?}");
        }
    }

    #[test]
    fn rows_go_where_their_neighbours_are_and_leave_no_partition_empty() {
        // Two halves of the ring, with rows of the other strewn in.
        let strewn = |row: usize| u16::from((row < 500) == row.is_multiple_of(25));
        let mut settling = Settling::new((0..1000).map(strewn).collect(), 2, &GO);
        let before = settling.cut(&Ring(1000)).expect("lists in memory");
        settling.settle(&Ring(1000), 5).expect("lists in memory");
        let after = settling.cut(&Ring(1000)).expect("lists in memory");
        assert_eq!((before.1, after), (2000, (6, 2000)), "from {before:?}");
        let mut settling = Settling::new(vec![0, 0, 0, 1], 2, &GO);
        settling.settle(&Ring(4), 5).expect("lists in memory");
        let sizes = sizes(&settling.into_parts(), 2);
        assert_eq!(sizes, [2, 2]);
    }
}
