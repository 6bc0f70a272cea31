//! How long a poller that sleeps when it is idle looks again before it does.
//!
//! A search asks for its next page some microseconds after it has got one. A poller that sleeps at
//! once is woken for each read, and once more for its end; on a machine that is otherwise idle a
//! wake-up takes longer than what the search computes. So a poller stays awake for a while after it
//! had something to do, as a search does that is alone. It does so only where that keeps nobody from
//! work: pollers that stay awake and threads that have used the devices just now need a processor
//! each, and no other program may want one, which a poller notices when it does not get on. Idle, it
//! sleeps; where all processors are at work, it sleeps at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than most reads take, and than a search computes between two. As long as a search that is
/// alone looks out for its reads.
pub(crate) const PATIENCE: Duration = Duration::from_micros(200);
/// A round that took longer was interrupted: longer than one that submits all that a device holds,
/// shorter than a turn of another thread on the same processor.
const INTERRUPTED: Duration = Duration::from_millis(1);
/// How long a poller that was interrupted sleeps at once.
const YIELDED: Duration = Duration::from_millis(100);

/// Pollers of one stripe that stay awake.
pub(crate) struct AwakePollers {
    processors: usize,
    awake: AtomicUsize,
}

impl AwakePollers {
    /// On so many processors.
    pub(crate) fn new(processors: usize) -> Self {
        Self { processors, awake: AtomicUsize::new(0) }
    }

    /// Whether so many pollers and so many threads that search have a processor each.
    fn fit(&self, awake: usize, searching: usize) -> bool {
        awake + searching <= self.processors
    }

    fn enter(&self, searching: usize) -> bool {
        let more = |awake| self.fit(awake + 1, searching).then_some(awake + 1);
        self.awake.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// Of one poller.
pub(crate) struct Patience {
    pollers: Arc<AwakePollers>,
    /// Whether it is one of those that stay awake.
    counted: bool,
    /// Since when there is nothing to do.
    since: Option<Instant>,
    /// When it looked the last time without sleeping since.
    looked: Option<Instant>,
    /// Rounds with something to do since then.
    rounds: u32,
    /// Until when it sleeps at once.
    yielded: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(pollers: Arc<AwakePollers>) -> Self {
        Self { pollers, counted: false, since: None, looked: None, rounds: 0, yielded: None }
    }

    /// There was something to do.
    pub(crate) fn renew(&mut self) {
        self.since = None;
        self.rounds += 1;
    }

    /// Whether to look again instead of sleeping, where so many threads have used the device just now.
    pub(crate) fn lasts(&mut self, now: Instant, searching: usize) -> bool {
        let since = *self.since.get_or_insert(now);
        let rounds = std::mem::take(&mut self.rounds) + 1;
        let took = self.looked.map(|looked| now.saturating_duration_since(looked));
        if took.is_some_and(|took| took > INTERRUPTED * rounds) {
            self.yielded = Some(now + YIELDED);
        }
        let lasts = searching > 0
            && now.saturating_duration_since(since) < PATIENCE
            && self.yielded.is_none_or(|until| now >= until)
            && if self.counted {
                self.pollers.fit(self.pollers.awake.load(Ordering::Relaxed), searching)
            } else {
                self.pollers.enter(searching)
            };
        if !lasts {
            self.sleep();
        }
        self.counted = lasts;
        self.looked = lasts.then_some(now);
        lasts
    }

    fn sleep(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.pollers.awake.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        self.sleep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pollers<const N: usize>(processors: usize) -> [Patience; N] {
        let shared = Arc::new(AwakePollers::new(processors));
        std::array::from_fn(|_| Patience::new(Arc::clone(&shared)))
    }

    #[test]
    fn it_ends_after_a_while_and_begins_anew_with_work() {
        let [mut poller] = pollers(2);
        let from = Instant::now();
        assert!(poller.lasts(from, 1));
        assert!(poller.lasts(from + PATIENCE / 2, 1));
        assert!(!poller.lasts(from + PATIENCE, 1), "it sleeps");
        assert!(!poller.lasts(from + 2 * PATIENCE, 1), "woken for nothing it sleeps again");
        poller.renew();
        assert!(poller.lasts(from + 3 * PATIENCE, 1));
    }

    #[test]
    fn nobody_searches_and_it_sleeps_at_once() {
        let [mut poller] = pollers(8);
        assert!(!poller.lasts(Instant::now(), 0));
    }

    #[test]
    fn it_sleeps_where_searches_need_the_processors() {
        let [mut poller] = pollers(2);
        let from = Instant::now();
        assert!(!poller.lasts(from, 2), "two searches on two processors");
        assert!(poller.lasts(from, 1));
        assert!(!poller.lasts(from, 2), "a second search has begun");
        let [mut poller] = pollers(1);
        assert!(!poller.lasts(from, 1), "one processor is the search's");
    }

    #[test]
    fn one_that_does_not_get_on_leaves_the_processor_to_others_for_a_while() {
        let [mut poller] = pollers(2);
        let from = Instant::now();
        assert!(poller.lasts(from, 1));
        poller.renew();
        let back = from + 3 * INTERRUPTED;
        assert!(!poller.lasts(back, 1), "another thread had its turn");
        poller.renew();
        assert!(!poller.lasts(back + YIELDED / 2, 1));
        poller.renew();
        assert!(poller.lasts(back + YIELDED, 1), "it tries again");
        // Many rounds of work take as long as they take, and so does sleep.
        (0..4).for_each(|_| poller.renew());
        assert!(poller.lasts(back + YIELDED + 3 * INTERRUPTED, 1));
        assert!(!poller.lasts(back + YIELDED + 3 * INTERRUPTED + PATIENCE, 1));
        poller.renew();
        assert!(poller.lasts(back + 2 * YIELDED, 1));
    }

    #[test]
    fn pollers_count_each_other_until_they_sleep_or_end() {
        let [mut first, mut second] = pollers(2);
        let from = Instant::now();
        assert!(first.lasts(from, 1));
        assert!(!second.lasts(from, 1), "the other one has the processor");
        assert!(first.lasts(from, 1), "which it keeps");
        assert!(!first.lasts(from + PATIENCE, 1));
        assert!(second.lasts(from, 1));
        drop(second);
        first.renew();
        assert!(first.lasts(from, 1));
        let mut four = pollers::<4>(8);
        assert!(four.iter_mut().all(|poller| poller.lasts(from, 4)));
        assert!(!four[0].lasts(from, 5));
    }
}
