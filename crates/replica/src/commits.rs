//! What a leader has put, counted: how many changes and bytes share an object, and how long a put takes.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// Powers of two below 2^32.
const BUCKETS: usize = 32;

/// How often a value was at most a power of two, and above the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeCounts {
    /// All values together.
    pub sum: u64,
    buckets: [u64; BUCKETS],
}

impl SizeCounts {
    fn count(&mut self, value: u64) {
        let exponent = value.max(1).next_power_of_two().trailing_zeros() as usize;
        self.buckets[exponent.min(BUCKETS - 1)] += 1;
        self.sum += value;
    }

    /// Bounds from 2^`least` to 2^`most`, each with how many values are at most that and above the bound
    /// before it; what is below the first is with the first, and what is beyond the last has no bound.
    pub fn buckets(&self, least: usize, most: usize) -> Vec<(f64, u64)> {
        let bound = |exponent: usize| (1_u64 << exponent) as f64;
        let mut found = vec![(bound(least), self.buckets[..=least].iter().sum())];
        found.extend((least + 1..=most).map(|at| (bound(at), self.buckets[at])));
        found.push((f64::INFINITY, self.buckets[most + 1..].iter().sum()));
        found
    }

    /// How many values there were.
    pub fn count_of_all(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What this server has put while it led, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitCounts {
    /// Changes in an object.
    pub changes: SizeCounts,
    /// Bytes of the changes in an object.
    pub bytes: SizeCounts,
    /// Microseconds that a put took.
    pub micros: SizeCounts,
    /// Objects of which it is not known whether they were put, or which found their name taken.
    pub failed: u64,
    /// Number of the last object that was put; 0 before the first.
    pub written: u64,
}

/// The counts while it is counted.
#[derive(Debug, Default)]
pub(crate) struct CommitTally(Mutex<CommitCounts>);

impl CommitTally {
    /// An object was put, as this number, or was not.
    pub(crate) fn put(&self, changes: usize, bytes: usize, took: Duration, number: Option<u64>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match number {
            Some(number) => {
                counts.written = number;
                counts.changes.count(changes as u64);
                counts.bytes.count(bytes as u64);
                counts.micros.count(u64::try_from(took.as_micros()).unwrap_or(u64::MAX >> 1));
            }
            None => counts.failed += 1,
        }
    }

    pub(crate) fn counts(&self) -> CommitCounts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_by_powers_of_two() {
        let mut sizes = SizeCounts::default();
        for value in [0, 1, 2, 3, 4, 5, 1 << 40] {
            sizes.count(value);
        }
        assert_eq!(sizes.count_of_all(), 7);
        assert_eq!(sizes.sum, 15 + (1 << 40));
        let all = sizes.buckets(0, 3);
        assert_eq!(all, [(1.0, 2), (2.0, 1), (4.0, 2), (8.0, 1), (f64::INFINITY, 1)]);
        assert_eq!(sizes.buckets(2, 3), [(4.0, 5), (8.0, 1), (f64::INFINITY, 1)]);
    }

    #[test]
    fn what_was_put_is_told_from_what_was_not() {
        let tally = CommitTally::default();
        tally.put(3, 100, Duration::from_millis(2), Some(7));
        tally.put(1, 10, Duration::from_millis(2), None);
        let counts = tally.counts();
        assert_eq!((counts.written, counts.failed), (7, 1));
        assert_eq!((counts.changes.sum, counts.bytes.sum, counts.micros.sum), (3, 100, 2000));
    }
}
