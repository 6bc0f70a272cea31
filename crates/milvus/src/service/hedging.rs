//! When a read is sent to a second server, from how long reads took lately: a rule without clock, network
//! or chance.
//!
//! A read that takes longer than nearly all before it of its kind is asked of another server as well, as long as
//! a budget lasts: each read adds to it, and a second one costs as much as twenty add. Where reads here take
//! far longer than the same reads take elsewhere, this server is slow, and nearly all of them would be late: then
//! a read goes elsewhere first, which is no second one, and a few are tried here to see whether it has passed.
//!
//! Deliberately absent: how loaded the others are. They tell by how long their answers take.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Reads of which at most one is asked of a second server.
const READS_A_HEDGE: u32 = 20;
/// Hedges that may come at once after a rest.
const BURST: u32 = 10;
/// Reads that are looked back on.
const LATELY: usize = 256;
/// Reads that have to be known before one is called late.
const ENOUGH: usize = 32;
/// What is quicker is not worth another server's work.
const QUICK: Duration = Duration::from_millis(2);
/// Answers from here, and from elsewhere, that are looked back on to tell whether this server is slow.
const COMPARED: usize = 32;
/// Of each of them so many have to be known.
const ENOUGH_HERE: usize = 16;
const ENOUGH_THERE: usize = 4;
/// How much longer reads take at a server that is slow.
const SLOW: u32 = 3;
/// Of so many reads of a server that is slow one is tried there.
const TRIED: u32 = 32;
/// How many times as long as a late read others are waited for, before they count as lost.
const LOST: u32 = 4;

/// Reads that are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadKind {
    Search,
    HybridSearch,
    Query,
}

impl ReadKind {
    const COUNT: usize = 3;

    /// The kind of a call; none where it is not hedged.
    pub(super) fn of(call: &str) -> Option<Self> {
        match call {
            "Search" => Some(Self::Search),
            "HybridSearch" => Some(Self::HybridSearch),
            "Query" => Some(Self::Query),
            _ => None,
        }
    }
}

/// Where a read is asked first, and when it is late there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Here; late after so long, where that is known.
    Here(Option<Duration>),
    /// Elsewhere; late after the first time, and lost after the second.
    There(Duration, Duration),
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Hedging {
    kinds: [Mutex<KindTimes>; ReadKind::COUNT],
    budget: Mutex<u32>,
}

#[derive(Debug, Default)]
struct KindTimes {
    /// Until they were answered, by whomever.
    answered: Lately,
    /// Of those answered here; of those that another server answered before, what was seen of it.
    here: Lately,
    there: Lately,
    late: Option<Duration>,
    is_slow: bool,
    turn: u32,
}

impl Hedging {
    /// Where a read is to be asked. It adds to the budget.
    pub(super) fn begin(&self, kind: ReadKind) -> First {
        let mut budget = locked(&self.budget);
        *budget = (*budget + 1).min(BURST * READS_A_HEDGE);
        drop(budget);
        let mut times = locked(&self.kinds[kind as usize]);
        times.turn = times.turn.wrapping_add(1);
        match times.late {
            Some(late) if times.is_slow && !times.turn.is_multiple_of(TRIED) => {
                First::There(late, late * LOST)
            }
            late => First::Here(late),
        }
    }

    /// Takes from the budget, where it has enough for a second server.
    pub(super) fn spend(&self) -> bool {
        let mut budget = locked(&self.budget);
        let left = budget.checked_sub(READS_A_HEDGE);
        *budget = left.unwrap_or(*budget);
        left.is_some()
    }

    /// This server answered a read.
    pub(super) fn answered_here(&self, kind: ReadKind, took: Duration) {
        let mut times = locked(&self.kinds[kind as usize]);
        times.answered.push(took, LATELY);
        times.here.push(took, COMPARED);
        times.judge();
    }

    /// Another server answered a read within `there`; `waited` is how long its client waited, and
    /// `here` how long this server had it in vain, where it had it.
    pub(super) fn answered_there(
        &self,
        kind: ReadKind,
        waited: Duration,
        there: Duration,
        here: Option<Duration>,
    ) {
        let mut times = locked(&self.kinds[kind as usize]);
        times.answered.push(waited, LATELY);
        times.there.push(there, COMPARED);
        if let Some(here) = here {
            // It would have taken longer; nothing says that it was quicker than before.
            let usual = times.here.share(0.5).unwrap_or_default();
            times.here.push(here.max(usual), COMPARED);
        }
        times.judge();
    }

    /// Another server has not answered a read that it was asked first.
    pub(super) fn lost_there(&self, kind: ReadKind) {
        let mut times = locked(&self.kinds[kind as usize]);
        times.there = Lately::default();
        times.judge();
    }
}

impl KindTimes {
    fn judge(&mut self) {
        // All of them are sorted for it, so not each time.
        if self.answered.is_due() {
            self.late = self.answered.share(0.95).map(|late| late.max(QUICK));
        }
        let both = (self.here.times.len() >= ENOUGH_HERE)
            .then(|| self.here.share(0.5))
            .flatten()
            .zip((self.there.times.len() >= ENOUGH_THERE).then(|| self.there.share(0.5)).flatten());
        self.is_slow = both.is_some_and(|(here, there)| here > QUICK.max(there * SLOW));
    }
}

/// Some of the last times.
#[derive(Debug, Default)]
struct Lately {
    times: Vec<Duration>,
    next: usize,
}

impl Lately {
    fn push(&mut self, time: Duration, most: usize) {
        if self.times.len() < most {
            self.times.push(time);
        } else {
            self.times[self.next % most] = time;
        }
        self.next += 1;
    }

    /// Whether there are enough of them, and some are new.
    fn is_due(&self) -> bool {
        self.next >= ENOUGH && self.next.is_multiple_of(ENOUGH / 2)
    }

    /// The time that such a share of them keeps below.
    fn share(&self, share: f64) -> Option<Duration> {
        let mut times = self.times.clone();
        let last = times.len().checked_sub(1)?;
        #[expect(clippy::cast_possible_truncation, reason = "below a length")]
        #[expect(clippy::cast_sign_loss, reason = "shares are not negative")]
        #[expect(clippy::cast_precision_loss, reason = "lengths are small")]
        let at = (last as f64 * share) as usize;
        Some(*times.select_nth_unstable(at).1)
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "hedging_tests.rs"]
mod tests;
