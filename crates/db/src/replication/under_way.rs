//! Changes that a server that leads has begun and not yet applied.
//!
//! Others may have read such a change from the shared log, and may have answered reads by it, before it
//! can be read here. So whoever is to read the latest here waits for those that are under way.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
struct OpenChanges {
    /// How many were begun.
    begun: u64,
    /// Which of them have not ended.
    open: BTreeSet<u64>,
}

impl OpenChanges {
    fn is_over(&self, before: u64) -> bool {
        self.open.first().is_none_or(|first| *first >= before)
    }
}

/// See the module's description. Shared between threads by reference.
#[derive(Debug, Default)]
pub struct ChangesUnderWay {
    changes: Mutex<OpenChanges>,
    ended: Condvar,
}

/// A change from before it may get into the shared log until it is applied, or has failed.
#[derive(Debug)]
#[must_use = "the change is over as soon as it is dropped"]
pub struct ChangeUnderWay {
    of: Arc<ChangesUnderWay>,
    number: u64,
}

impl Drop for ChangeUnderWay {
    fn drop(&mut self) {
        self.of.changes().open.remove(&self.number);
        self.of.ended.notify_all();
    }
}

/// The changes that had begun by a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunChanges(u64);

impl ChangesUnderWay {
    fn changes(&self) -> MutexGuard<'_, OpenChanges> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change begins.
    pub fn begin(self: &Arc<Self>) -> ChangeUnderWay {
        let mut changes = self.changes();
        let number = changes.begun;
        changes.begun += 1;
        changes.open.insert(number);
        ChangeUnderWay { of: Arc::clone(self), number }
    }

    /// Those that have begun until now.
    pub fn begun(&self) -> BegunChanges {
        BegunChanges(self.changes().begun)
    }

    /// Whether all of these are applied here, or have failed.
    pub fn are_over(&self, begun: BegunChanges) -> bool {
        self.changes().is_over(begun.0)
    }

    /// Waits until they are, so long at most; whether they are.
    pub fn wait(&self, begun: BegunChanges, at_most: Duration) -> bool {
        let open = |changes: &mut OpenChanges| !changes.is_over(begun.0);
        let waited = self.ended.wait_timeout_while(self.changes(), at_most, open);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over(begun.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_began_before_are_waited_for_and_no_others() {
        let changes = Arc::new(ChangesUnderWay::default());
        assert!(changes.are_over(changes.begun()));
        let (first, second) = (changes.begin(), changes.begin());
        let begun = changes.begun();
        let later = changes.begin();
        assert!(!changes.wait(begun, Duration::ZERO));
        drop(first);
        assert!(!changes.are_over(begun));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| changes.wait(begun, Duration::from_secs(600)));
            drop(second);
            assert!(waits.join().unwrap());
        });
        assert!(changes.are_over(begun) && !changes.are_over(changes.begun()));
        drop(later);
        assert!(changes.are_over(changes.begun()));
    }
}
