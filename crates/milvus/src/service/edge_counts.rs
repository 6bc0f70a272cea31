//! Calls that were sent on, by why, and those that only a leader answers and that are under way here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Why a call is sent to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentOn {
    /// Only the leader answers it.
    Leader,
    /// It is a page of an iterator that the other server keeps.
    Iterator,
    /// Again: the server that it was sent to did not lead.
    NotLeading,
    /// Again: the server that it was sent to could not be reached.
    Unreachable,
    /// It is a read that takes long here.
    Hedge,
    /// It is a read that failed here.
    FailedHere,
    /// It is a read, and reads take long here.
    SlowHere,
}

impl SentOn {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Leader, "leader"),
        (Self::Iterator, "iterator"),
        (Self::NotLeading, "not_leading"),
        (Self::Unreachable, "unreachable"),
        (Self::Hedge, "hedge"),
        (Self::FailedHere, "failed_here"),
        (Self::SlowHere, "slow_here"),
    ];
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct EdgeCounts {
    sent: [AtomicU64; SentOn::ALL.len()],
    led: AtomicUsize,
    hedged: AtomicU64,
    won: AtomicU64,
}

impl EdgeCounts {
    pub(super) fn sent(&self, why: SentOn) {
        self.sent[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often, by why.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |why: SentOn| self.sent[why as usize].load(Ordering::Relaxed);
        SentOn::ALL.into_iter().map(move |(why, name)| (name, count(why)))
    }

    /// A read was asked of a second server beside the first one.
    pub(super) fn hedged(&self) {
        self.hedged.fetch_add(1, Ordering::Relaxed);
    }

    /// The second server answered it before the first one.
    pub(super) fn won(&self) {
        self.won.fetch_add(1, Ordering::Relaxed);
    }

    /// How many reads were asked of a second server, and how many of those it answered.
    pub(super) fn hedges(&self) -> (u64, u64) {
        (self.hedged.load(Ordering::Relaxed), self.won.load(Ordering::Relaxed))
    }

    /// A call of the leader's begins here. Taken before it is looked who leads, so that whoever closes
    /// the lead and then finds none under way knows that none begins.
    pub(super) fn begin_led(self: &Arc<Self>) -> LedCall {
        self.led.fetch_add(1, Ordering::SeqCst);
        LedCall(Arc::clone(self))
    }

    /// Calls of the leader's that are under way here.
    pub(super) fn led(&self) -> usize {
        self.led.load(Ordering::SeqCst)
    }
}

/// A call of the leader's that is under way, as long as it is there.
pub(super) struct LedCall(Arc<EdgeCounts>);

impl Drop for LedCall {
    fn drop(&mut self) {
        self.0.led.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_places_of_their_names() {
        let counts = Arc::new(EdgeCounts::default());
        for (times, (why, _)) in SentOn::ALL.into_iter().enumerate() {
            (0..=times).for_each(|_| counts.sent(why));
        }
        let found: Vec<_> = counts.all().collect();
        let wanted = [
            ("leader", 1),
            ("iterator", 2),
            ("not_leading", 3),
            ("unreachable", 4),
            ("hedge", 5),
            ("failed_here", 6),
            ("slow_here", 7),
        ];
        assert_eq!(found, wanted);
        let (one, two) = (counts.begin_led(), counts.begin_led());
        drop(one);
        assert_eq!(counts.led(), 1);
        drop(two);
        assert_eq!(counts.led(), 0);
    }
}
