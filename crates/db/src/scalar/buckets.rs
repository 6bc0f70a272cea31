//! Signatures of single values: one byte a row, the number of the bucket that its key is in.
//!
//! Buckets are ranges of keys of about equal depth, learned for each run from its own data, so
//! that a merged run has new ones. A frequent key has a bucket to itself; where there are no more
//! keys than buckets, each has. A bucket remembers its first and last key and its rows, which is
//! the histogram that estimates are made from. Code 0 is null, bucket `i` is code `i + 1`.

use super::predicate::KeyTest;
use super::truth::TernaryBits;

/// The most buckets.
pub(super) const MAX_BUCKETS: usize = 255;

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) first: Vec<u8>,
    pub(super) last: Vec<u8>,
    pub(super) rows: u32,
    /// Different keys.
    pub(super) keys: u32,
}

/// The buckets of a column of a run, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Buckets {
    pub(super) nulls: u32,
    pub(super) buckets: Vec<Bucket>,
}

/// What a predicate makes of each code.
pub(super) type CodeTable = [TernaryBits; 256];

impl Buckets {
    /// The code of null.
    pub(super) const NULL: u8 = 0;

    pub(super) fn table(&self, test: &KeyTest) -> CodeTable {
        // A code that no row has says nothing.
        let mut table = [TernaryBits::ANYTHING; 256];
        let is_null_test = *test == KeyTest::Null;
        table[usize::from(Self::NULL)] =
            if is_null_test { TernaryBits::TRUE } else { TernaryBits::UNKNOWN };
        for (truth, bucket) in table[1..].iter_mut().zip(&self.buckets) {
            *truth = match test {
                KeyTest::Null => TernaryBits::FALSE,
                KeyTest::Keys { maybe, sure } => {
                    let may_hold = maybe.intersects(&bucket.first, &bucket.last);
                    let holds = may_hold && sure.covers(&bucket.first, &bucket.last);
                    TernaryBits::new(may_hold, !holds)
                }
                // Elements are asked of arrays only.
                KeyTest::All(_) | KeyTest::Any(_) => TernaryBits::ANYTHING,
            };
        }
        table
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let keys = |bucket: &Bucket| bucket.first.len() + bucket.last.len() + size_of::<Bucket>();
        self.buckets.iter().map(keys).sum::<usize>() as u64
    }
}

/// Which of the keys with these numbers of rows begin a bucket.
pub(super) fn starts(counts: &[u32]) -> Vec<usize> {
    if counts.len() <= MAX_BUCKETS {
        return (0..counts.len()).collect();
    }
    let mut rows_left: u64 = counts.iter().copied().map(u64::from).sum();
    let (mut starts, mut depth) = (vec![0], 0);
    for (at, count) in counts.iter().copied().map(u64::from).enumerate() {
        let buckets_left = (MAX_BUCKETS - starts.len() + 1) as u64;
        let full = (rows_left + depth).div_ceil(buckets_left);
        if depth > 0 && depth + count > full && buckets_left > 1 {
            starts.push(at);
            depth = 0;
        }
        depth += count;
        rows_left -= count;
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depths(counts: &[u32]) -> Vec<u32> {
        let starts = starts(counts);
        assert!(starts.len() <= MAX_BUCKETS && starts[0] == 0, "{}", starts.len());
        let ends = starts.iter().skip(1).copied().chain([counts.len()]);
        starts.iter().zip(ends).map(|(&start, end)| counts[start..end].iter().sum()).collect()
    }

    #[test]
    fn few_keys_have_a_bucket_each() {
        assert_eq!(depths(&[1, 1_000_000, 3]), [1, 1_000_000, 3]);
        assert_eq!(depths(&[7; 255]).len(), 255);
    }

    #[test]
    fn buckets_are_of_equal_depth() {
        let depths = depths(&[1; 100_000]);
        assert_eq!(depths.len(), 255);
        assert!(depths.iter().all(|depth| (390..=394).contains(depth)), "{depths:?}");
    }

    #[test]
    fn a_frequent_key_takes_no_depth_from_the_others() {
        let mut counts = vec![1; 20_000];
        counts[10_000] = 1_000_000;
        let depths = depths(&counts);
        let deepest = depths.iter().filter(|depth| **depth < 1_000_000).max();
        assert!(deepest.is_some_and(|depth| *depth < 20_000), "{depths:?}");
    }
}
