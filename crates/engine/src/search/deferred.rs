//! Deferred neighbours: those of records that were read and are not explored yet.
//!
//! Kept apart from the page they came in, so that its buffer is free at once. There may be one entry
//! for each place in the candidate list, and one more for the moment of an exchange. Hardly ever are
//! that many in use where the list is long, so room for the others is made when they are needed.

/// The entry of a candidate that has none.
pub(super) const NO_STASH: u32 = u32::MAX;

/// Entries that there is room for at first, of a list that may need more.
const AT_FIRST: usize = 512;

/// Neighbour ids of nodes whose page was read but that are not explored yet.
#[derive(Debug, Default)]
pub(super) struct DeferredNeighbours {
    ids: Vec<u32>,
    degrees: Vec<u16>,
    /// Entries given back.
    free: Vec<u32>,
    /// Entries from here on were not in use since the last reset.
    next: u32,
    max_degree: usize,
}

impl DeferredNeighbours {
    /// Empties it, for up to `entries`.
    pub(super) fn reset(&mut self, entries: usize, max_degree: usize) {
        let entries = entries.min(AT_FIRST);
        if max_degree != self.max_degree {
            self.max_degree = max_degree;
            self.degrees.clear();
        }
        self.free.clear();
        self.free.reserve(entries);
        self.next = 0;
        self.grow(entries);
    }

    pub(super) fn put(&mut self, neighbours: &[u32]) -> u32 {
        let entry = self.free.pop().unwrap_or_else(|| {
            if self.next as usize == self.degrees.len() {
                self.grow((2 * self.degrees.len()).max(16));
            }
            self.next += 1;
            self.next - 1
        });
        let at = entry as usize * self.max_degree;
        self.ids[at..at + neighbours.len()].copy_from_slice(neighbours);
        self.degrees[entry as usize] = neighbours.len() as u16;
        entry
    }

    pub(super) fn get(&self, entry: u32) -> &[u32] {
        let at = entry as usize * self.max_degree;
        &self.ids[at..at + usize::from(self.degrees[entry as usize])]
    }

    pub(super) fn release(&mut self, entry: u32) {
        if entry != NO_STASH {
            self.free.push(entry);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.ids.capacity() * 4 + self.degrees.capacity() * 2 + self.free.capacity() * 4
    }

    /// Makes room for `entries` in all.
    pub(super) fn grow(&mut self, entries: usize) {
        if entries > self.degrees.len() {
            self.degrees.resize(entries, 0);
            let ids = entries * self.max_degree;
            self.ids.resize(ids.max(self.ids.len()), 0);
        }
    }
}
