//! The list of a query that stays with its asker: the nearest nodes known, and the rows found.
//!
//! It takes the decisions of the list of one server, so that one node at a time is the same search.
//!
//! Invariants: entries are sorted by distance and node, no node twice; the bound never grows, so what
//! was turned away once stays so.

use std::collections::HashSet;

use crate::wire::{Hit, Read};

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Coded until the node was read, exact from then on.
    distance: f32,
    node: u32,
    /// Whether it was asked for.
    asked: bool,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Nearest {
    entries: Vec<Entry>,
    most: usize,
    bound: f32,
    /// Every node that was ever in the list.
    seen: HashSet<u32>,
    hits: Vec<(f32, u64)>,
    k: usize,
}

impl Nearest {
    /// An empty list of at most so many nodes, for so many rows.
    pub(super) fn new(list: usize, k: usize) -> Self {
        let (entries, seen, hits) = (Vec::new(), HashSet::new(), Vec::new());
        Self { entries, most: list, bound: f32::INFINITY, seen, hits, k }
    }

    /// Only a distance below this can enter.
    pub(super) fn bound(&self) -> f32 {
        self.bound
    }

    /// How many of a server's nearest neighbours are enough, whichever of them are known here.
    pub(super) fn wanted(&self) -> usize {
        self.most + self.seen.len()
    }

    /// The nearest nodes that were not asked for, at most so many, which counts as asking for them.
    pub(super) fn next(&mut self, most: usize) -> Vec<u32> {
        let open = self.entries.iter_mut().filter(|entry| !entry.asked).take(most);
        open.map(|entry| {
            entry.asked = true;
            entry.node
        })
        .collect()
    }

    /// A node was scored by its code.
    pub(super) fn meet(&mut self, distance: f32, node: u32) {
        if distance < self.bound && self.seen.insert(node) {
            self.insert(Entry { distance, node, asked: false });
        }
    }

    /// A node that was asked for was read.
    pub(super) fn read(&mut self, read: Read) {
        let Read { node, distance, row } = read;
        if let Some(at) = self.entries.iter().position(|entry| entry.node == node) {
            self.entries.remove(at);
            self.insert(Entry { distance, node, asked: true });
        }
        let Some(row) = row else { return };
        let at = self.hits.partition_point(|hit| before(*hit, (distance, row)));
        if at < self.k && self.hits.get(at).is_none_or(|hit| hit.1 != row) {
            self.hits.insert(at, (distance, row));
            self.hits.truncate(self.k);
        }
    }

    /// The rows found, nearest first.
    pub(super) fn hits(&self) -> impl Iterator<Item = Hit> {
        self.hits.iter().map(|&(distance, row)| Hit { distance, row })
    }

    fn insert(&mut self, entry: Entry) {
        let key = (entry.distance, entry.node);
        let at = self.entries.partition_point(|other| before((other.distance, other.node), key));
        if at >= self.most {
            return;
        }
        self.entries.truncate(self.most - 1);
        self.entries.insert(at, entry);
        if let (true, Some(last)) = (self.entries.len() == self.most, self.entries.last()) {
            self.bound = self.bound.min(last.distance);
        }
    }
}

fn before<T: PartialOrd>(a: (f32, T), b: (f32, T)) -> bool {
    a.0 < b.0 || a.0 == b.0 && a.1 < b.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_out_stays_out_and_what_was_read_stands_by_its_exact_distance() {
        let mut list = Nearest::new(3, 2);
        for (distance, node) in [(5.0, 1), (3.0, 2), (4.0, 3)] {
            list.meet(distance, node);
        }
        assert_eq!((list.bound(), list.wanted()), (5.0, 6));
        list.meet(5.0, 4);
        assert_eq!(list.next(2), [2, 3], "the nearest, and nothing at the bound");
        list.read(Read { node: 2, distance: 9.0, row: Some(20) });
        list.read(Read { node: 3, distance: 2.0, row: Some(30) });
        list.read(Read { node: 3, distance: 2.0, row: Some(30) });
        // Once full, it takes in nothing as far as that again.
        assert_eq!(list.bound(), 5.0);
        list.meet(3.0, 2);
        list.meet(4.5, 7);
        assert_eq!(list.next(9), [7, 1], "read nodes are not asked for again");
        list.read(Read { node: 7, distance: 1.0, row: None });
        list.read(Read { node: 1, distance: 2.0, row: Some(10) });
        let rows: Vec<_> = list.hits().map(|hit| (hit.distance, hit.row)).collect();
        assert_eq!(rows, [(2.0, 10), (2.0, 30)]);
    }
}
