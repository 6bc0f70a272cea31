//! Whether any collection may have stopped, at the price of two counters: reads ask it, of thousands of
//! collections too.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often collections have stopped, or come to be open.
#[derive(Debug, Default)]
pub(crate) struct CollectionStops {
    counted: AtomicU64,
    /// So many were counted when all collections were well.
    well_at: AtomicU64,
}

impl CollectionStops {
    /// A collection has stopped, which who looks finds by now, or others are open than before, which nobody
    /// can look at yet.
    pub(crate) fn count(&self) {
        self.counted.fetch_add(1, Ordering::SeqCst);
    }

    /// What `look` finds, unless nothing was counted since it found nothing.
    pub(crate) fn find<T>(&self, look: impl FnOnce() -> Option<T>) -> Option<T> {
        let counted = self.counted.load(Ordering::SeqCst);
        // It begins with one look, though nothing was counted.
        if self.well_at.load(Ordering::SeqCst) > counted {
            return None;
        }
        let found = look();
        if found.is_none() {
            self.well_at.fetch_max(counted + 1, Ordering::SeqCst);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_made_until_nothing_is_found_and_again_when_something_was_counted() {
        let stops = CollectionStops::default();
        let looks = |found: Option<u8>| {
            let mut looked = false;
            let told = stops.find(|| {
                looked = true;
                found
            });
            (looked, told)
        };
        assert_eq!(looks(Some(1)), (true, Some(1)));
        assert_eq!(looks(Some(2)), (true, Some(2)));
        assert_eq!(looks(None), (true, None));
        assert_eq!(looks(Some(3)), (false, None));
        stops.count();
        assert_eq!(looks(Some(4)), (true, Some(4)));
        assert_eq!(looks(None), (true, None));
        assert_eq!(looks(None), (false, None));
        // What is counted while somebody looks is looked for.
        stops.count();
        assert_eq!(
            stops.find(|| {
                stops.count();
                None::<u8>
            }),
            None
        );
        assert_eq!(looks(Some(5)), (true, Some(5)));
    }
}
