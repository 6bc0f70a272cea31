//! Which nodes a query has scored already: a hash set of fixed size without deletion.
//!
//! A stamp per node would be faster by a little, but costs bytes per vector for every query in
//! flight; a search scores a few thousand nodes, so a table of 32 KiB stays in the first-level
//! cache whatever the size of the index. A full table forgets: [`VisitedSet::insert`] then
//! answers [`Seen::Unknown`], and the caller must check the candidate list itself.

/// The answer of [`VisitedSet::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Not seen before, and remembered now.
    New,
    /// Seen before.
    Before,
    /// The table is full and the node is not in it.
    Unknown,
}

/// See the module's description. Node `u32::MAX` is reserved.
#[derive(Debug)]
pub struct VisitedSet {
    /// As long as the largest that was asked for; what is not in use is not looked at.
    table: Vec<u32>,
    /// Entries in use, a power of two.
    slots: usize,
    /// Entries that may come to be in use.
    most: usize,
    shift: u32,
    left: usize,
    /// What moves when more entries come into use.
    moving: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

impl VisitedSet {
    /// A set that remembers at least `nodes` nodes; takes 8 to 16 bytes for each.
    pub fn new(nodes: usize) -> Self {
        let (table, moving) = (Vec::new(), Vec::new());
        let mut set = Self { table, slots: 0, most: 0, shift: 0, left: 0, moving };
        set.reset(nodes);
        set
    }

    /// Forgets everything and makes room for at least `nodes` nodes; allocates only to grow. After a
    /// search that has seen many, one that sees few does not pay for emptying all of its table.
    pub fn reset(&mut self, nodes: usize) {
        self.reset_growing(nodes, nodes);
    }

    /// The same, with room for `few` nodes at first: the rest of it is emptied when it is needed.
    pub fn reset_growing(&mut self, few: usize, nodes: usize) {
        self.most = slots_for(nodes);
        self.use_slots(slots_for(few).min(self.most));
    }

    fn use_slots(&mut self, slots: usize) {
        self.slots = slots;
        self.shift = 64 - slots.trailing_zeros();
        if self.table.len() < slots {
            self.table = vec![EMPTY; slots];
        }
        self.clear();
    }

    /// Bytes of a set that comes to remember so many nodes, with what moves when it grows.
    pub(super) fn bytes_for(nodes: usize) -> usize {
        slots_for(nodes) * size_of::<u32>() / 8 * 11
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        size_of_val(self.table.as_slice()) + self.moving.capacity() * size_of::<u32>()
    }

    /// Nodes that a cleared set remembers.
    pub fn capacity(&self) -> usize {
        self.most / 4 * 3
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.table[..self.slots].fill(EMPTY);
        self.left = self.slots / 4 * 3;
    }

    /// Whether nothing more can be remembered.
    pub fn is_full(&self) -> bool {
        self.left == 0 && self.slots == self.most
    }

    /// Remembers `node`.
    #[inline]
    pub fn insert(&mut self, node: u32) -> Seen {
        let table = &mut self.table[..self.slots];
        let mask = table.len() - 1;
        let mut at = (u64::from(node).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        loop {
            let slot = &mut table[at & mask];
            if *slot == node {
                return Seen::Before;
            }
            if *slot == EMPTY {
                if self.left == 0 {
                    return self.grow_for(node);
                }
                self.left -= 1;
                *slot = node;
                return Seen::New;
            }
            at += 1;
        }
    }

    /// Remembers a node that is not in the set, for which there is no room in the entries in use.
    #[cold]
    fn grow_for(&mut self, node: u32) -> Seen {
        if self.slots == self.most {
            return Seen::Unknown;
        }
        let mut moving = std::mem::take(&mut self.moving);
        moving.clear();
        moving.extend(self.table[..self.slots].iter().filter(|slot| **slot != EMPTY));
        self.use_slots(self.slots * 2);
        for &node in &moving {
            self.insert(node);
        }
        self.moving = moving;
        self.insert(node)
    }
}

/// Entries of a table for so many nodes.
fn slots_for(nodes: usize) -> usize {
    (nodes * 2).next_power_of_two().max(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_until_cleared() {
        let mut set = VisitedSet::new(100);
        assert_eq!(set.insert(5), Seen::New);
        assert_eq!(set.insert(5), Seen::Before);
        set.clear();
        assert_eq!(set.insert(5), Seen::New);
    }

    #[test]
    fn a_smaller_set_remembers_as_much_as_was_asked_for() {
        let mut set = VisitedSet::new(10_000);
        let (most, bytes) = (set.capacity(), set.bytes());
        (0..5_000).for_each(|node| assert_eq!(set.insert(node), Seen::New));
        set.reset(100);
        assert!((100..most / 8).contains(&set.capacity()));
        (0..100).for_each(|node| assert_eq!(set.insert(node), Seen::New));
        set.reset(10_000);
        assert_eq!((set.capacity(), set.bytes()), (most, bytes));
        (0..5_000).for_each(|node| assert_eq!(set.insert(node), Seen::New, "{node}"));
    }

    #[test]
    fn one_that_grows_remembers_what_one_does_that_was_large_at_once() {
        let (mut grown, mut large) = (VisitedSet::new(0), VisitedSet::new(0));
        grown.reset_growing(100, 4096);
        large.reset(4096);
        let few = grown.slots;
        assert!(few < large.slots && grown.capacity() == large.capacity());
        // Every third one comes again, up to and beyond the end of all room.
        for i in 0..2 * large.capacity() as u32 {
            let node = (if i % 3 == 2 { i - 2 } else { i }).wrapping_mul(7919);
            assert_eq!(grown.insert(node), large.insert(node), "{i}");
            assert_eq!(grown.is_full(), large.is_full(), "{i}");
        }
        assert!(grown.is_full());
        grown.reset_growing(100, 4096);
        assert_eq!(grown.slots, few, "it begins with few again");
        assert_eq!(grown.insert(7919), Seen::New);
    }

    #[test]
    fn a_full_table_says_that_it_does_not_know() {
        let mut set = VisitedSet::new(1);
        let capacity = set.capacity() as u32;
        for node in 0..capacity {
            assert_eq!(set.insert(node * 7919), Seen::New);
        }
        assert!(set.is_full());
        assert_eq!(set.insert(1), Seen::Unknown);
        assert_eq!(set.insert(7919), Seen::Before);
    }
}
