//! What has changed, told to whoever subscribed.
//!
//! A notice names what to look at again, not what it was or is. So several changes of one thing are
//! one notice, a slow reader costs no more than what there is to know, and nothing is lost: past a
//! bound all is told as [`Noticed::Everything`].

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// Notices that wait for one reader; beyond, they become one.
const WAITING_MAX: usize = 4096;
/// How often whoever has no thread of its own is asked whether time has changed something.
const TICK: Duration = Duration::from_millis(5);

/// Something to look at again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noticed {
    /// All of it: the list was read anew, or too much has changed.
    Everything,
    /// Who is there.
    Servers,
    /// Who leads this shard.
    Leader(u64),
    /// The value of this name.
    Value(String),
}

#[derive(Default)]
struct Waiting {
    what: BTreeSet<Noticed>,
    /// Where it comes from has been dropped.
    ended: bool,
}

type Wake = Box<dyn Fn() + Send + Sync>;

struct Subscriber {
    waiting: Mutex<Waiting>,
    came: Condvar,
    wake: Option<Wake>,
}

impl Subscriber {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics under this lock")
    }

    fn tell(&self, change: impl FnOnce(&mut Waiting)) {
        change(&mut self.lock());
        self.came.notify_all();
        if let Some(wake) = &self.wake {
            wake();
        }
    }
}

/// A subscription to what changes; dropping it ends it.
pub struct Notices {
    subscriber: Arc<Subscriber>,
    tick: Option<Wake>,
}

impl Notices {
    /// The next notice, if one waits.
    pub fn try_next(&self) -> Option<Noticed> {
        if let Some(tick) = &self.tick {
            tick();
        }
        self.subscriber.lock().what.pop_first()
    }

    /// The next notice, if one comes within `timeout`.
    pub fn next(&self, timeout: Duration) -> Option<Noticed> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(found) = self.try_next() {
                return Some(found);
            }
            let waiting = self.subscriber.lock();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || waiting.ended {
                return None;
            }
            if waiting.what.is_empty() {
                let left = if self.tick.is_some() { left.min(TICK) } else { left };
                drop(self.subscriber.came.wait_timeout(waiting, left));
            }
        }
    }
}

/// Where notices come from.
#[derive(Default)]
pub(crate) struct Subscribers(Mutex<Vec<Weak<Subscriber>>>);

impl Subscribers {
    /// `wake` is called after each notice, from whatever thread it comes; `tick` before each look.
    pub(crate) fn subscribe(&self, wake: Option<Wake>, tick: Option<Wake>) -> Notices {
        let (waiting, came) = Default::default();
        let subscriber = Arc::new(Subscriber { waiting, came, wake });
        let mut all = self.0.lock().expect("nothing panics under this lock");
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(&subscriber));
        Notices { subscriber, tick }
    }

    pub(crate) fn tell(&self, what: &Noticed) {
        self.each(|waiting| {
            let all = waiting.what.first() == Some(&Noticed::Everything);
            if *what == Noticed::Everything || waiting.what.len() >= WAITING_MAX {
                waiting.what = BTreeSet::from([Noticed::Everything]);
            } else if !all {
                waiting.what.insert(what.clone());
            }
        });
    }

    fn each(&self, change: impl Fn(&mut Waiting)) {
        let all: Vec<_> = {
            let all = self.0.lock().expect("nothing panics under this lock");
            all.iter().filter_map(Weak::upgrade).collect()
        };
        all.iter().for_each(|it| it.tell(&change));
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        self.each(|waiting| waiting.ended = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_thing_are_one_notice() {
        let source = Subscribers::default();
        let notices = source.subscribe(None, None);
        for what in [Noticed::Leader(3), Noticed::Servers, Noticed::Leader(3)] {
            source.tell(&what);
        }
        assert_eq!(notices.try_next(), Some(Noticed::Servers));
        assert_eq!(notices.try_next(), Some(Noticed::Leader(3)));
        assert_eq!(notices.try_next(), None);
    }

    #[test]
    fn a_slow_reader_is_told_to_look_at_everything() {
        let source = Subscribers::default();
        let notices = source.subscribe(None, None);
        (0..10_000).for_each(|shard| source.tell(&Noticed::Leader(shard)));
        assert_eq!(notices.next(Duration::from_secs(9)), Some(Noticed::Everything));
        assert_eq!(notices.try_next(), None);
        drop(source);
        assert_eq!(notices.next(Duration::from_secs(900)), None);
    }
}
