//! Numbers of partitions: those between which most edges go follow each other.
//!
//! A server owns partitions of consecutive numbers, so a search that leaves one of them is the more
//! often still at home. Partitions are paired, those with most edges between them first, then pairs of
//! pairs, and so on: whatever power of two a server owns, it is about the best of that size.

use std::collections::HashMap;

/// Edges between partitions, added up.
#[derive(Default)]
pub(crate) struct EdgesBetween(HashMap<(u16, u16), u64>);

impl EdgesBetween {
    /// Counts edges from one partition to another one, or to itself.
    pub(crate) fn add(&mut self, from: u16, to: u16, weight: u64) {
        if from != to {
            *self.0.entry((from.min(to), from.max(to))).or_default() += weight;
        }
    }

    /// Gives the partitions of rows other numbers.
    pub(crate) fn renumber(self, part_of: &mut [u16], count: usize) {
        let mut number = vec![0; count];
        for (at, part) in self.into_order(count).into_iter().enumerate() {
            number[part as usize] = at as u16;
        }
        part_of.iter_mut().for_each(|part| *part = number[*part as usize]);
    }

    fn into_order(self, count: usize) -> Vec<u16> {
        let mut groups: Vec<Vec<u16>> = (0..count as u16).map(|part| vec![part]).collect();
        let mut between = self.0;
        while groups.len() > 1 {
            let mut heaviest: Vec<_> =
                between.iter().map(|(&pair, &weight)| (weight, pair)).collect();
            heaviest.sort_unstable_by_key(|&(weight, pair)| (std::cmp::Reverse(weight), pair));
            let mut pairs = GroupPairs::of(groups.len());
            heaviest.into_iter().for_each(|(_, (a, b))| pairs.join(a, b));
            pairs.join_rest();
            let mut next: Vec<Vec<u16>> = vec![vec![]; pairs.joined as usize];
            for (group, into) in groups.into_iter().zip(&pairs.into) {
                next[into.expect("all are joined") as usize].extend(group);
            }
            let mut sums = HashMap::new();
            for ((a, b), weight) in between {
                let of = |group: u16| pairs.into[group as usize].expect("all are joined");
                let (a, b) = (of(a), of(b));
                if a != b {
                    *sums.entry((a.min(b), a.max(b))).or_default() += weight;
                }
            }
            (groups, between) = (next, sums);
        }
        groups.pop().unwrap_or_default()
    }
}

/// Groups that are joined two by two.
struct GroupPairs {
    /// What each has become a part of.
    into: Vec<Option<u16>>,
    joined: u16,
}

impl GroupPairs {
    fn of(groups: usize) -> Self {
        Self { into: vec![None; groups], joined: 0 }
    }

    /// Joins two, if neither is joined yet.
    fn join(&mut self, a: u16, b: u16) {
        if self.into[a as usize].is_none() && self.into[b as usize].is_none() {
            self.into[a as usize] = Some(self.joined);
            self.into[b as usize] = Some(self.joined);
            self.joined += 1;
        }
    }

    /// Joins what is left, of which nothing goes to what else is left; a last one stays alone.
    fn join_rest(&mut self) {
        let left: Vec<usize> = (0..self.into.len()).filter(|&g| self.into[g].is_none()).collect();
        for pair in left.chunks(2) {
            pair.iter().for_each(|&group| self.into[group] = Some(self.joined));
            self.joined += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(count: usize, edges: &[(u16, u16, u64)]) -> Vec<u16> {
        let mut between = EdgesBetween::default();
        edges.iter().for_each(|&(a, b, weight)| between.add(a, b, weight));
        between.into_order(count)
    }

    #[test]
    fn partitions_with_most_edges_between_them_follow_each_other() {
        // Two squares, of which each has two heavy sides, and a light edge from one to the other.
        let edges = [
            (0, 4, 9),
            (4, 2, 3),
            (2, 6, 9),
            (6, 0, 3),
            (1, 5, 8),
            (5, 3, 2),
            (3, 7, 8),
            (4, 5, 1),
        ];
        let order = order(8, &edges);
        let place = |part| order.iter().position(|&p| p == part).expect("each is there");
        for (a, b) in [(0, 4), (2, 6), (1, 5), (3, 7)] {
            assert_eq!(place(a) / 2, place(b) / 2, "{a} and {b} in {order:?}");
        }
        for (a, b) in [(0, 2), (4, 6), (1, 3), (5, 7)] {
            assert_eq!(place(a) / 4, place(b) / 4, "{a} and {b} in {order:?}");
        }
    }

    #[test]
    fn each_partition_has_one_number_whatever_lies_between_them() {
        for count in [1, 2, 3, 7, 10, 100] {
            for edges in [vec![], vec![(0, count as u16 - 1, 5)]] {
                let mut order = order(count, &edges);
                order.sort_unstable();
                assert!(order.into_iter().eq(0..count as u16), "{count} partitions");
            }
        }
        let mut between = EdgesBetween::default();
        [(0, 2, 7), (2, 0, 7), (1, 1, 99)].iter().for_each(|&(a, b, w)| between.add(a, b, w));
        let mut part_of = [0, 1, 2, 2, 1];
        between.renumber(&mut part_of, 3);
        assert!(part_of == [0, 2, 1, 1, 2] || part_of == [1, 2, 0, 0, 2], "{part_of:?}");
    }
}
