//! Timestamps of the wire: milliseconds of the clock, and below them 18 bits that count.

use std::sync::atomic::{AtomicU64, Ordering};

use pipeann_db::catalog::{CollectionEntry, UnixMs};

const COUNTER_BITS: u32 = 18;

/// A moment of the clock.
pub(crate) fn hybrid(UnixMs(ms): UnixMs) -> u64 {
    ms << COUNTER_BITS
}

/// Which version of its schema a collection has. Clients send it back with what they write, so it is
/// another one after each change of the schema, and for a collection that took the name of another.
pub(crate) fn schema_timestamp(collection: &CollectionEntry) -> u64 {
    let counter = (collection.id.0 << 8).wrapping_add(u64::from(collection.schema.version()));
    hybrid(collection.created) | counter & ((1 << COUNTER_BITS) - 1)
}

/// A timestamp that is no moment of an iterator, not before this one.
pub(crate) fn even(timestamp: u64) -> u64 {
    timestamp.saturating_add(timestamp & 1) & !1
}

/// Gives out timestamps, each later than the one before, and even: odd ones are moments of iterators.
#[derive(Debug, Default)]
pub(crate) struct Timestamps(AtomicU64);

impl Timestamps {
    pub(crate) fn next(&self, now: UnixMs) -> u64 {
        let now = hybrid(now);
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(now.max(last + 2)));
        // The update always gives a value, so both arms hold what stood there before.
        let (Ok(before) | Err(before)) = before;
        now.max(before + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_timestamp_becomes_the_next_even_one() {
        assert_eq!([even(0), even(7), even(8), even(u64::MAX)], [0, 8, 8, u64::MAX - 1]);
    }

    #[test]
    fn timestamps_grow_also_where_the_clock_stands_or_goes_back() {
        let timestamps = Timestamps::default();
        let first = timestamps.next(UnixMs(1_000));
        assert_eq!(first, 1_000 << 18);
        assert_eq!(timestamps.next(UnixMs(1_000)), first + 2);
        assert_eq!(timestamps.next(UnixMs(900)), first + 4);
        assert_eq!(timestamps.next(UnixMs(1_001)), 1_001 << 18);
    }
}
