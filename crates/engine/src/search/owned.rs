//! Which pages of a graph can be read here, where others hold the rest of it.
//!
//! A graph that is cut over several servers stays one graph: all codes are everywhere, and a page
//! is on one of them. A search reads what is here, and says where it has to go on
//! ([`Step::Elsewhere`](super::Step::Elsewhere)) when what it wants next is not
//! (BatANN, section 4; docs/decisions/0041).

use std::ops::Range;

use crate::types::PageId;

/// Where a graph comes from: a search that goes on elsewhere does so on the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// uuid of the index.
    pub uuid: [u8; 16],
    /// Its generation.
    pub generation: u64,
    /// Version of the codebook that made its codes.
    pub codebook: u32,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let uuid = u128::from_be_bytes(self.uuid);
        write!(f, "{uuid:032x}, generation {}, codebook {}", self.generation, self.codebook)
    }
}

/// Pages that can be read here: ranges that do not touch, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    ranges: Box<[Range<u32>]>,
}

impl Owned {
    /// The pages of all these ranges.
    pub fn new(ranges: impl IntoIterator<Item = Range<u32>>) -> Self {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u32>> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Self { ranges: joined.into() }
    }

    /// Whether a page can be read here.
    #[inline]
    pub fn holds(&self, page: PageId) -> bool {
        self.around(page).is_some()
    }

    /// The range that a page is in.
    #[inline]
    pub(super) fn around(&self, page: PageId) -> Option<&Range<u32>> {
        let after = self.ranges.partition_point(|range| range.start <= page.0);
        let before = self.ranges[..after].last()?;
        (page.0 < before.end).then_some(before)
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    /// The ranges.
    pub fn ranges(&self) -> &[Range<u32>] {
        &self.ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_looked_up() {
        let owned = Owned::new([9..12, 0..3, 3..5, 20..20, 10..14]);
        assert_eq!(owned.ranges(), [0..5, 9..14]);
        assert_eq!(owned.pages(), 10);
        let held: Vec<u32> = (0..25).filter(|&page| owned.holds(PageId(page))).collect();
        assert_eq!(held, [0, 1, 2, 3, 4, 9, 10, 11, 12, 13]);
        assert!(!Owned::new([]).holds(PageId(0)));
        assert!(!owned.holds(PageId(u32::MAX)));
    }
}
