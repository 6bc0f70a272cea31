//! For how long a lease certainly runs.
//!
//! etcd counts a lease from the moment in which it handles a renewal. That lies after its sending, so
//! who counts from the sending ends first. What is left to allow for is that the two clocks run at
//! different speeds: a tenth of the lease, far above what a sound clock drifts. An etcd that
//! restarts or changes its leader begins leases anew, which only makes them longer.

use std::time::Duration;

/// The shortest lease, and the longest.
pub(crate) const TTL_MIN: Duration = Duration::from_secs(1);
pub(crate) const TTL_MAX: Duration = Duration::from_secs(60);
/// One part in so many is kept back for clocks that run at different speeds.
const DRIFT: u32 = 10;

/// A lease as its holder counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Countdown {
    /// When the last renewal that was answered had been sent.
    sent: Duration,
    ttl: Duration,
}

impl Countdown {
    pub(crate) fn new(sent: Duration, ttl: Duration) -> Self {
        Self { sent, ttl: ttl.min(TTL_MAX * 2) }
    }

    /// A renewal that had been sent at `sent` was answered. Answers may overtake each other.
    pub(crate) fn renewed(&mut self, sent: Duration, ttl: Duration) {
        if sent >= self.sent {
            *self = Self::new(sent, ttl);
        }
    }

    /// The moment after which nothing is certain any more.
    pub(crate) fn end(&self) -> Duration {
        self.sent + (self.ttl - self.ttl / DRIFT)
    }

    pub(crate) fn left(&self, now: Duration) -> Duration {
        self.end().saturating_sub(now)
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// When the next renewal is sent: two may be lost before the lease ends.
    pub(crate) fn renewal(&self) -> Duration {
        self.sent + self.ttl / 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_lease_is_counted_from_the_sending_less_a_tenth() {
        let mut countdown = Countdown::new(S(100), S(10));
        assert_eq!(countdown.left(S(100)), S(9));
        assert_eq!(countdown.left(S(109)), S(0));
        assert_eq!(countdown.left(S(500)), S(0));
        countdown.renewed(S(103), S(10));
        assert_eq!(countdown.left(S(109)), S(3));
        // An answer that comes late takes nothing away.
        countdown.renewed(S(101), S(10));
        assert_eq!(countdown.left(S(109)), S(3));
    }

    #[test]
    fn an_absurd_answer_is_bounded() {
        assert!(Countdown::new(S(0), S(u64::MAX / 4)).left(S(0)) < TTL_MAX * 2);
    }
}
