//! Hash tables by page number. An insert looks some hundreds of pages up; the hash that the
//! standard library takes for input of strangers took a tenth of its time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Values by page number.
pub(super) type PageTable<T> = HashMap<u32, T, BuildHasherDefault<PageHasher>>;

/// Spreads page numbers, which lie close together, over all bits.
#[derive(Default)]
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, n: u32) {
        let mixed = (self.0 ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Tables use the upper and the lower bits.
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_pages_differ_in_upper_and_lower_bits() {
        let hash = |page: u32| {
            let mut hasher = PageHasher::default();
            hasher.write_u32(page);
            hasher.finish()
        };
        let distinct = |shift: u32, bits: u32| {
            let part = |page: u32| hash(page * 64) >> shift & ((1 << bits) - 1);
            (0..128).map(part).collect::<std::collections::HashSet<_>>().len()
        };
        assert!(distinct(57, 7) > 64, "{}", distinct(57, 7));
        assert!(distinct(0, 12) > 120, "{}", distinct(0, 12));
    }
}
