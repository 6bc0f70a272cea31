//! How a client takes the answer of its call: what the connection has of it, and for how long.
//!
//! Only time counts in which something waits for the client: nobody is late whose answer comes slowly from
//! another server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::network_limits::LEAST_BYTES_PER_S;

/// A call, from when it begins to come until its answer is taken.
#[derive(Debug)]
pub(super) struct CallUnderWay {
    /// Whether all of it has come.
    has_come: AtomicBool,
    answer: Mutex<AnswerTaken>,
}

#[derive(Debug)]
struct AnswerTaken {
    /// Pieces that the connection has, and has not sent.
    pieces: usize,
    /// Since when it has some, or when one was sent last.
    since: Instant,
    /// How long it had some until then.
    waited: Duration,
    bytes: u64,
}

impl CallUnderWay {
    pub(super) fn new() -> Self {
        let (since, waited) = (Instant::now(), Duration::ZERO);
        let answer = Mutex::new(AnswerTaken { pieces: 0, since, waited, bytes: 0 });
        Self { has_come: AtomicBool::new(false), answer }
    }

    /// All of it has come; whether that is new.
    pub(super) fn comes(&self) -> bool {
        !self.has_come.swap(true, Ordering::Relaxed)
    }

    /// Whether all of it has come, so that it is answered.
    pub(super) fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Relaxed)
    }

    /// The connection was given a piece of the answer.
    pub(super) fn gave(&self) {
        let mut answer = self.answer();
        if answer.pieces == 0 {
            answer.since = Instant::now();
        }
        answer.pieces += 1;
    }

    /// It has sent a piece, or lets go of it.
    pub(super) fn took(&self, bytes: usize) {
        let mut answer = self.answer();
        let now = Instant::now();
        let since = std::mem::replace(&mut answer.since, now);
        answer.waited += now.saturating_duration_since(since);
        answer.pieces -= 1;
        answer.bytes += bytes as u64;
    }

    /// Whether the client has taken longer than it may: so long, and more by a second for each 32 KiB
    /// of the answer that it took.
    pub(super) fn is_late(&self, wait: Duration, now: Instant) -> bool {
        let answer = self.answer();
        let may = wait + Duration::from_secs(answer.bytes / LEAST_BYTES_PER_S);
        answer.pieces > 0 && answer.waited + now.saturating_duration_since(answer.since) >= may
    }

    /// Whether the client has taken nothing for so long of what is there for it.
    pub(super) fn is_stuck(&self, wait: Duration, now: Instant) -> bool {
        let answer = self.answer();
        answer.pieces > 0 && now.saturating_duration_since(answer.since) >= wait
    }

    fn answer(&self) -> MutexGuard<'_, AnswerTaken> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_counts_in_which_something_waits_for_the_client() {
        let (call, wait) = (CallUnderWay::new(), Duration::from_secs(10));
        let after = |seconds| Instant::now() + Duration::from_secs(seconds);
        assert!(!call.is_late(wait, after(1_000)) && !call.is_stuck(wait, after(1_000)));
        call.gave();
        call.gave();
        assert!(!call.is_late(wait, after(5)) && !call.is_stuck(wait, after(5)));
        assert!(call.is_late(wait, after(11)) && call.is_stuck(wait, after(11)));
        // What is taken gives it time.
        call.took(10 << 15);
        assert!(!call.is_late(wait, after(15)) && call.is_stuck(wait, after(15)));
        assert!(call.is_late(wait, after(21)));
        call.took(0);
        assert!(!call.is_late(wait, after(1_000)) && !call.is_stuck(wait, after(1_000)));
    }
}
