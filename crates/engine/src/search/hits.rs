//! The answer under way: the nearest nodes whose exact distance is known.

use crate::types::{NodeId, RowId};

/// One result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Exact distance in the index's metric; smaller is nearer.
    pub distance: f32,
    /// The row, as the caller knows it.
    pub row: RowId,
    /// The node that holds the row.
    pub node: NodeId,
    /// Whether the hit was handed out already, in a search continued for further results.
    pub(super) returned: bool,
}

/// The nearest hits so far, sorted by (distance, row).
#[derive(Debug, Default)]
pub struct HitList {
    hits: Vec<Hit>,
    capacity: usize,
}

impl HitList {
    /// Empties the list and sets how many hits it keeps; allocates only to grow.
    pub fn reset(&mut self, capacity: usize) {
        self.hits.clear();
        self.grow(capacity);
        self.capacity = capacity;
    }

    /// Says how many hits are kept, without making room for them.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Keeps more hits from now on.
    pub fn grow(&mut self, capacity: usize) {
        self.hits.reserve((capacity + 1).saturating_sub(self.hits.len()));
        self.capacity = self.capacity.max(capacity);
    }

    /// The hits, nearest first.
    pub fn as_slice(&self) -> &[Hit] {
        &self.hits
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Hit] {
        &mut self.hits
    }

    /// Hits kept at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.hits.capacity() * size_of::<Hit>()
    }

    /// Adds a hit unless its row is there already or it is too far.
    pub fn insert(&mut self, hit: Hit) {
        let full = self.hits.len() == self.capacity;
        if full && self.hits.last().is_some_and(|last| last.distance < hit.distance) {
            return;
        }
        let key = (hit.distance, hit.row);
        let at = self.hits.partition_point(|h| (h.distance, h.row) < key);
        if at >= self.capacity || self.hits.get(at).is_some_and(|h| h.row == hit.row) {
            return;
        }
        let mut at = at;
        if self.hits.len() == self.capacity {
            // One that was handed out stays, so that it is not handed out again.
            let Some(last) = self.hits.iter().rposition(|h| !h.returned) else { return };
            if last < at && self.hits[last].distance <= hit.distance {
                return;
            }
            self.hits.remove(last);
            at -= usize::from(last < at);
        }
        self.hits.insert(at, hit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(distance: f32, row: u64) -> Hit {
        Hit { distance, row: RowId(row), node: NodeId(row as u32), returned: false }
    }

    #[test]
    fn keeps_the_nearest_once_ties_by_row() {
        let mut list = HitList::default();
        list.reset(3);
        for h in [hit(2.0, 9), hit(2.0, 4), hit(2.0, 9), hit(1.0, 1), hit(5.0, 2)] {
            list.insert(h);
        }
        let rows: Vec<u64> = list.as_slice().iter().map(|h| h.row.0).collect();
        assert_eq!(rows, [1, 4, 9]);
    }
}
