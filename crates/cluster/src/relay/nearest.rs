//! The list of a query that stays with its asker: the nearest nodes known, and the rows found.
//!
//! It takes the decisions of the list of one server, so that one node at a time is the same search.
//!
//! Nodes that nobody asked for are read where every record of a page is used. They come into the list
//! as those that were asked for, and nothing beyond what codes have proved is asked for then.
//!
//! Invariants: entries are sorted by distance and node, no node twice; the bound never grows, so what
//! was turned away once stays so.

use std::collections::HashSet;

use super::early_stop::EarlyStop;
use crate::wire::{Hit, Read};

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Coded until the node was read, exact from then on.
    distance: f32,
    node: u32,
    /// Whether it was asked for, or read beside one that was.
    asked: bool,
    /// Whether it was read.
    exact: bool,
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
    /// As long as it was asked to be; it is longer where it stops early.
    list: usize,
    stop: Option<Box<dyn EarlyStop>>,
    /// Farther than this nothing is asked for; none while that is not known.
    reach: Option<f32>,
}

impl Nearest {
    /// An empty list of at most so many nodes, for so many rows.
    pub(super) fn new(list: usize, k: usize) -> Self {
        let (entries, seen, hits) = (Vec::new(), HashSet::new(), Vec::new());
        let (bound, stop, reach) = (f32::INFINITY, None, None);
        Self { entries, most: list, bound, seen, hits, k, list, stop, reach }
    }

    /// Has the search stop early, before anything was met.
    pub(super) fn stop_by(&mut self, stop: Box<dyn EarlyStop>) {
        self.most = stop.keeps(self.list).max(self.list);
        self.stop = Some(stop);
    }

    /// Only a distance below this can enter.
    pub(super) fn bound(&self) -> f32 {
        self.bound
    }

    /// How many of a server's nearest neighbours are enough, whichever of them are known here.
    pub(super) fn wanted(&self) -> usize {
        self.most + self.seen.len()
    }

    /// The nearest nodes that were not asked for and are worth it, at most so many, which counts as asking
    /// for them.
    pub(super) fn next(&mut self, most: usize) -> Vec<u32> {
        let (list, reach) = (self.list, self.reach);
        let worth = |(at, entry): &(usize, &mut Entry)| match reach {
            Some(reach) => entry.distance <= reach,
            None => *at < list,
        };
        let open = self.entries.iter_mut().enumerate().filter(|(_, entry)| !entry.asked);
        let next = open.take_while(worth).take(most);
        next.map(|(_, entry)| {
            entry.asked = true;
            entry.node
        })
        .collect()
    }

    /// A node was scored by its code.
    pub(super) fn meet(&mut self, distance: f32, node: u32) {
        if distance < self.bound && self.seen.insert(node) {
            self.insert(Entry { distance, node, asked: false, exact: false });
        }
    }

    /// A node was read: one that was asked for, or one beside it.
    pub(super) fn read(&mut self, read: Read) {
        let Read { node, distance, row } = read;
        let exact = Entry { distance, node, asked: true, exact: true };
        match self.entries.iter().position(|entry| entry.node == node) {
            Some(at) if self.entries[at].exact => {}
            Some(at) => {
                let coded = self.entries.remove(at).distance;
                if let Some(stop) = &mut self.stop {
                    stop.note(distance - coded);
                }
                self.insert(exact);
            }
            None => {
                self.seen.insert(node);
                if distance < self.bound {
                    self.insert(exact);
                }
            }
        }
        let Some(row) = row else { return };
        let at = self.hits.partition_point(|hit| before(*hit, (distance, row)));
        if at < self.k && self.hits.get(at).is_none_or(|hit| hit.1 != row) {
            self.hits.insert(at, (distance, row));
            self.hits.truncate(self.k);
        }
    }

    /// All reads of a step are known: looks again how far nodes are worth one.
    pub(super) fn look_again(&mut self) {
        let kth = self.hits.last().filter(|_| self.hits.len() == self.k);
        if let (Some(stop), Some((kth, _))) = (&self.stop, kth) {
            self.reach = stop.reach(*kth, self.k, self.list.max(self.k));
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

    /// Reads as far as the `k`-th nearest and what codes promised too little, once it knows of two.
    #[derive(Debug, Default)]
    struct Stops(Vec<f32>);

    impl EarlyStop for Stops {
        fn keeps(&self, list: usize) -> usize {
            2 * list
        }

        fn note(&mut self, difference: f32) {
            self.0.push(difference);
        }

        fn reach(&self, kth: f32, k: usize, list: usize) -> Option<f32> {
            assert_eq!((k, list), (2, 3));
            (self.0.len() > 1).then(|| kth + self.0.iter().sum::<f32>())
        }
    }

    #[test]
    fn what_was_read_unasked_is_not_asked_for_and_nothing_beyond_its_reach_is() {
        let mut list = Nearest::new(3, 2);
        list.stop_by(Box::<Stops>::default());
        for (distance, node) in [(1.0, 1), (2.0, 2), (3.0, 3), (4.0, 4), (5.0, 5), (6.0, 6)] {
            list.meet(distance, node);
        }
        assert_eq!(list.bound(), 6.0, "twice as many are kept as the list is long");
        assert_eq!(list.next(1), [1]);
        let read = |node, distance| Read { node, distance, row: Some(u64::from(node)) };
        list.read(read(1, 2.5));
        // Beside it lies one of the list, one that nobody knew, and one that is too far for the list.
        list.read(read(3, 2.5));
        list.read(read(8, 5.5));
        list.read(read(9, 7.0));
        list.look_again();
        list.meet(0.5, 8);
        // The differences are 1.5 and -0.5, and the second nearest row is at 2.5.
        assert_eq!(list.next(9), [2], "3 was read, and 4 is beyond 3.5");
        list.read(read(2, 4.0));
        list.read(read(2, 4.0));
        list.look_again();
        assert_eq!(list.next(9), [4, 5], "2 stood 2 nearer than it is, and was counted once");
        let rows: Vec<u64> = list.hits().map(|hit| hit.row).collect();
        assert_eq!(rows, [1, 3]);
    }

    #[test]
    fn until_its_reach_is_known_no_more_is_asked_for_than_the_list_is_long() {
        let mut list = Nearest::new(3, 2);
        list.stop_by(Box::<Stops>::default());
        (1..=6).for_each(|node| list.meet(node as f32, node));
        assert_eq!(list.next(9), [1, 2, 3]);
        assert_eq!(list.next(9), [0; 0]);
    }
}
