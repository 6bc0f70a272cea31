//! Signatures of arrays: 128 bits a row, in which each element sets some.
//!
//! Bit 0 says that the array is not null. An element that many rows have owns a bit, and is told
//! exactly; the others share the rest, each setting a few bits chosen by its hash (a superimposed
//! code). Where there are no more elements than bits, each owns one. Which elements are frequent,
//! and how many bits the rare ones set, is learned for each run from its own data.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::key::Wanted;
use super::predicate::KeyTest;
use super::truth::TernaryBits;

/// Bits of a row.
pub(super) const SIGNATURE_BITS: usize = 128;
/// Bytes of a row.
pub(super) const SIGNATURE_BYTES: usize = SIGNATURE_BITS / 8;
/// Elements that can own a bit: all but that of null.
pub(super) const MAX_OWNERS: usize = SIGNATURE_BITS - 1;
/// Elements that own a bit where there are more elements than bits. Measured with the tags of
/// `sift1m`: with more of them the rare ones are told apart worse, with fewer the frequent ones.
const FREQUENT: usize = 32;
/// The most bits that a rare element sets.
const MAX_HASHED_BITS: u32 = 6;

/// What an element does to a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    /// The bit is its own.
    Own(u128),
    Shared(u128),
    /// No row has it.
    Absent,
}

/// How the arrays of a run are coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ElementCode {
    /// Elements with a bit of their own, ascending; the first owns bit 1.
    pub(super) owners: Vec<Vec<u8>>,
    /// Bits that each other element sets; 0 where there are no others.
    pub(super) hashed_bits: u32,
}

/// A predicate, compiled for a run.
#[derive(Clone, Debug)]
pub(super) enum ElementTest {
    Null,
    /// All of these bits; whether they prove the elements.
    All {
        bits: u128,
        proof: bool,
    },
    /// One of these bits, each of which proves its element, or all of one of the other sets.
    Any {
        proofs: u128,
        others: Vec<u128>,
    },
    Never,
}

/// Learns a code from the elements of a run.
#[derive(Debug, Default)]
pub(super) struct ElementCounts {
    /// The most frequent ones, the rarest of them on top.
    frequent: BinaryHeap<Reverse<(u32, Vec<u8>)>>,
    keys: usize,
    occurrences: u64,
}

impl ElementCounts {
    pub(super) fn add(&mut self, key: &[u8], rows: u32) {
        self.keys += 1;
        self.occurrences += u64::from(rows);
        let full = self.frequent.len() == MAX_OWNERS;
        if full && self.frequent.peek().is_some_and(|Reverse((least, _))| *least >= rows) {
            return;
        }
        if full {
            self.frequent.pop();
        }
        self.frequent.push(Reverse((rows, key.to_vec())));
    }

    /// The code for so many arrays.
    pub(super) fn learn(self, arrays: u64) -> ElementCode {
        let mut frequent: Vec<_> = self.frequent.into_iter().map(|Reverse(each)| each).collect();
        frequent.sort_by(|a, b| b.cmp(a));
        let all_own = self.keys <= MAX_OWNERS;
        if !all_own {
            frequent.truncate(FREQUENT);
        }
        let owned: u64 = frequent.iter().map(|(rows, _)| u64::from(*rows)).sum();
        let shared_bits = (MAX_OWNERS - frequent.len()) as f64;
        let shared_elements = (self.occurrences - owned) as f64 / arrays.max(1) as f64;
        // Half the bits set would tell most apart if all rows had equally many; rows with more
        // than the mean want fewer.
        let best = (0.5 * shared_bits / shared_elements.max(0.1)).round();
        let hashed_bits = if all_own { 0 } else { (best as u32).clamp(1, MAX_HASHED_BITS) };
        let mut owners: Vec<_> = frequent.into_iter().map(|(_, key)| key).collect();
        owners.sort_unstable();
        ElementCode { owners, hashed_bits }
    }
}

impl ElementCode {
    /// The bit of every array that is not null.
    pub(super) const NOT_NULL: u128 = 1;

    /// A code as a file tells of it; `None` where none is like it.
    pub(super) fn new(owners: Vec<Vec<u8>>, hashed_bits: u32) -> Option<Self> {
        let most = if owners.len() < MAX_OWNERS { MAX_HASHED_BITS } else { 0 };
        let known = owners.len() <= MAX_OWNERS && owners.is_sorted() && hashed_bits <= most;
        known.then_some(Self { owners, hashed_bits })
    }

    fn bits(&self, key: &[u8]) -> Bits {
        if let Ok(at) = self.owners.binary_search_by(|owner| owner.as_slice().cmp(key)) {
            return Bits::Own(2 << at);
        }
        if self.hashed_bits == 0 {
            return Bits::Absent;
        }
        let shared = (MAX_OWNERS - self.owners.len()) as u64;
        let hash = xxhash_rust::xxh3::xxh3_64(key);
        let (mut at, step) = (hash >> 32, hash & 0xffff_ffff | 1);
        let mut bits = 0_u128;
        for round in 0..u64::from(self.hashed_bits) {
            bits |= 1 << (1 + self.owners.len() as u64 + at % shared);
            at = at.wrapping_add(step).wrapping_add(round);
        }
        Bits::Shared(bits)
    }

    /// The bits that an element of this run sets.
    pub(super) fn mark(&self, key: &[u8]) -> u128 {
        match self.bits(key) {
            Bits::Own(bits) | Bits::Shared(bits) => bits,
            Bits::Absent => unreachable!("the code was learned from all elements"),
        }
    }

    pub(super) fn compile(&self, test: &KeyTest) -> ElementTest {
        let proof = |bits: Bits, wanted: &Wanted| matches!(bits, Bits::Own(_)) && wanted.whole;
        match test {
            KeyTest::Null => ElementTest::Null,
            KeyTest::All(wanted) => {
                let (mut all, mut proven) = (0, true);
                for wanted in wanted {
                    let bits = self.bits(&wanted.key);
                    proven &= proof(bits, wanted);
                    match bits {
                        Bits::Own(bits) | Bits::Shared(bits) => all |= bits,
                        Bits::Absent => return ElementTest::Never,
                    }
                }
                ElementTest::All { bits: all, proof: proven }
            }
            KeyTest::Any(wanted) => {
                let (mut proofs, mut others) = (0, Vec::new());
                for wanted in wanted {
                    match self.bits(&wanted.key) {
                        Bits::Own(bits) if wanted.whole => proofs |= bits,
                        Bits::Own(bits) | Bits::Shared(bits) => others.push(bits),
                        Bits::Absent => {}
                    }
                }
                others.sort_unstable();
                others.dedup();
                ElementTest::Any { proofs, others }
            }
            KeyTest::Keys { .. } => unreachable!("arrays are asked for elements"),
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.owners.iter().map(|owner| owner.len() + size_of::<Vec<u8>>()).sum::<usize>() as u64
    }
}

impl ElementTest {
    /// What is known of a row with this signature.
    #[inline]
    pub(super) fn truth(&self, signature: u128) -> TernaryBits {
        let is_null = signature & ElementCode::NOT_NULL == 0;
        match self {
            Self::Null => TernaryBits::new(is_null, !is_null),
            _ if is_null => TernaryBits::UNKNOWN,
            Self::All { bits, proof } => {
                let held = signature & bits == *bits;
                TernaryBits::new(held, !held || !proof)
            }
            Self::Any { proofs, others } => {
                let proven = signature & proofs != 0;
                let held = proven || others.iter().any(|bits| signature & bits == *bits);
                TernaryBits::new(held, !proven)
            }
            Self::Never => TernaryBits::FALSE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(keys: u32) -> ElementCode {
        let mut counts = ElementCounts::default();
        for key in 0..keys {
            counts.add(&key.to_be_bytes(), 1_000 / (key + 1) + 1);
        }
        counts.learn(1_000)
    }

    fn wanted(key: u32) -> Wanted {
        Wanted { key: key.to_be_bytes().to_vec(), whole: true }
    }

    #[test]
    fn few_elements_are_told_exactly() {
        let code = code(127);
        let signature = ElementCode::NOT_NULL | code.mark(&5_u32.to_be_bytes());
        let test = |key| code.compile(&KeyTest::All(vec![wanted(key)])).truth(signature);
        assert_eq!((test(5), test(6)), (TernaryBits::TRUE, TernaryBits::FALSE));
        assert_eq!(test(1_000), TernaryBits::FALSE, "no row has it");
    }

    #[test]
    fn frequent_elements_are_told_exactly_and_rare_ones_never_missed() {
        let code = code(4_096);
        assert!((1..=MAX_HASHED_BITS).contains(&code.hashed_bits));
        let mark = |key: u32| code.mark(&key.to_be_bytes());
        let signature = ElementCode::NOT_NULL | mark(0) | mark(4_000);
        let all = |keys: &[u32]| {
            let wanted = keys.iter().copied().map(wanted).collect();
            code.compile(&KeyTest::All(wanted)).truth(signature)
        };
        assert_eq!((all(&[0]), all(&[1])), (TernaryBits::TRUE, TernaryBits::FALSE));
        assert_eq!(all(&[4_000]), TernaryBits::new(true, true));
        assert_eq!(all(&[0, 4_000]), TernaryBits::new(true, true));
        assert_eq!(all(&[]), TernaryBits::TRUE);
        let any = |keys: &[u32]| {
            let wanted = keys.iter().copied().map(wanted).collect();
            code.compile(&KeyTest::Any(wanted)).truth(signature)
        };
        assert_eq!((any(&[0, 1]), any(&[1])), (TernaryBits::TRUE, TernaryBits::FALSE));
        assert_eq!(any(&[]), TernaryBits::FALSE);
        let misses = (1_000..4_000).filter(|&key| !all(&[key]).may_hold()).count();
        assert!(misses > 2_900, "a signature of one rare element resembles {misses} of 3,000 not");
    }

    #[test]
    fn codes_that_none_learned_are_refused() {
        let owners = |count: u8| (0..count).map(|key| vec![key]).collect::<Vec<_>>();
        for (count, hashed_bits) in [(127, 0), (32, 1), (32, MAX_HASHED_BITS), (0, 0)] {
            assert!(ElementCode::new(owners(count), hashed_bits).is_some());
        }
        for (count, hashed_bits) in [(128, 0), (127, 1), (32, MAX_HASHED_BITS + 1), (32, u32::MAX)]
        {
            assert_eq!(ElementCode::new(owners(count), hashed_bits), None);
        }
        let descending = owners(32).into_iter().rev().collect();
        assert_eq!(ElementCode::new(descending, 1), None, "a bit is found by search");
    }

    #[test]
    fn null_is_neither_empty_nor_full() {
        let code = code(300);
        let is_null = code.compile(&KeyTest::Null);
        assert_eq!((is_null.truth(0), is_null.truth(1)), (TernaryBits::TRUE, TernaryBits::FALSE));
        let all = code.compile(&KeyTest::All(vec![wanted(1)]));
        assert_eq!((all.truth(0), all.truth(1)), (TernaryBits::UNKNOWN, TernaryBits::FALSE));
    }
}
