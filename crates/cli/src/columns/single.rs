//! One evaluation of each filter, however many ask for it at once, and what the last ones gave.
//!
//! Whoever asks first evaluates, and whoever comes meanwhile waits for the outcome, each as long as it
//! has time. An evaluation for which its first asker has none left may go on apart, a few at once.
//!
//! Invariant: a filter is under way exactly as long as there is a claim to it; who holds that tells those
//! who wait when it goes, whatever becomes of it.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use lru::LruCache;

/// Evaluations that go on apart at once: each takes a core, and searches are to have the others.
const APART_MOST: usize = 2;

/// See the module's description.
pub(super) struct Evaluations<T>(Mutex<KeptAndBegun<T>>);

struct KeptAndBegun<T> {
    kept: LruCache<Vec<u8>, T>,
    under_way: HashMap<Vec<u8>, Arc<AwaitedEnd<T>>>,
    /// How many of those go on apart.
    apart: usize,
}

/// How an evaluation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvaluationEnd<T> {
    /// What it gave, which is kept.
    Given(T),
    /// What is wrong with the filter.
    Refused(String),
    /// Nobody goes on with it.
    Dropped,
}

/// An evaluation that others wait for.
pub(super) struct AwaitedEnd<T> {
    outcome: Mutex<Option<EvaluationEnd<T>>>,
    ended: Condvar,
}

/// What there is of a filter for who asks.
pub(super) enum FilterTurn<T: Clone> {
    Kept(T),
    Wait(Arc<AwaitedEnd<T>>),
    Evaluate(Claim<T>),
}

/// That this one evaluates a filter.
pub(super) struct Claim<T: Clone> {
    filter: Vec<u8>,
    of: Arc<Evaluations<T>>,
    under_way: Arc<AwaitedEnd<T>>,
    is_apart: bool,
    outcome: EvaluationEnd<T>,
}

impl<T: Clone> Evaluations<T> {
    /// None yet; the outcomes of so many are kept, those asked for last.
    pub(super) fn new(kept: NonZeroUsize) -> Self {
        let (kept, under_way) = (LruCache::new(kept), HashMap::new());
        Self(Mutex::new(KeptAndBegun { kept, under_way, apart: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, KeptAndBegun<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is of a filter. Where there is nothing, whoever asks evaluates it.
    pub(super) fn turn(self: &Arc<Self>, filter: &[u8]) -> FilterTurn<T> {
        let mut inner = self.lock();
        if let Some(kept) = inner.kept.get(filter) {
            return FilterTurn::Kept(kept.clone());
        }
        if let Some(under_way) = inner.under_way.get(filter) {
            return FilterTurn::Wait(Arc::clone(under_way));
        }
        let under_way = Arc::new(AwaitedEnd { outcome: Mutex::new(None), ended: Condvar::new() });
        inner.under_way.insert(filter.to_vec(), Arc::clone(&under_way));
        let (filter, of) = (filter.to_vec(), Arc::clone(self));
        let (is_apart, outcome) = (false, EvaluationEnd::Dropped);
        FilterTurn::Evaluate(Claim { filter, of, under_way, is_apart, outcome })
    }
}

impl<T: Clone> AwaitedEnd<T> {
    /// Waits for the outcome; none where it is not there in time.
    pub(super) fn wait(&self, until: Option<Instant>) -> Option<EvaluationEnd<T>> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if outcome.is_some() {
                return outcome.clone();
            }
            outcome = match until {
                None => self.ended.wait(outcome).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.checked_duration_since(Instant::now())?;
                    let waited = self.ended.wait_timeout(outcome, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl<T: Clone> Claim<T> {
    /// Whether it may go on apart from who asked first.
    pub(super) fn goes_apart(&mut self) -> bool {
        let mut inner = self.of.lock();
        let may = self.is_apart || inner.apart < APART_MOST;
        inner.apart += usize::from(may && !self.is_apart);
        drop(inner);
        self.is_apart = may;
        may
    }

    /// Ends it. One that is dropped before has not been evaluated.
    pub(super) fn end(mut self, outcome: EvaluationEnd<T>) {
        self.outcome = outcome;
    }
}

impl<T: Clone> Drop for Claim<T> {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.outcome, EvaluationEnd::Dropped);
        let mut inner = self.of.lock();
        inner.under_way.remove(&self.filter);
        inner.apart -= usize::from(self.is_apart);
        if let EvaluationEnd::Given(given) = &outcome {
            inner.kept.put(std::mem::take(&mut self.filter), given.clone());
        }
        drop(inner);
        let mut told = self.under_way.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        *told = Some(outcome);
        drop(told);
        self.under_way.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluations() -> Arc<Evaluations<u32>> {
        Arc::new(Evaluations::new(NonZeroUsize::new(2).unwrap()))
    }

    fn claim(of: &Arc<Evaluations<u32>>, filter: &[u8]) -> Claim<u32> {
        let FilterTurn::Evaluate(claim) = of.turn(filter) else {
            panic!("it is there, or under way")
        };
        claim
    }

    fn waits(of: &Arc<Evaluations<u32>>, filter: &[u8]) -> Arc<AwaitedEnd<u32>> {
        let FilterTurn::Wait(under_way) = of.turn(filter) else { panic!("it is not under way") };
        under_way
    }

    #[test]
    fn whoever_comes_while_a_filter_is_evaluated_waits_for_that() {
        let of = evaluations();
        let first = claim(&of, b"a");
        let others = [waits(&of, b"a"), waits(&of, b"a")];
        assert_eq!(others[0].wait(Some(Instant::now())), None, "there is no time");
        drop(claim(&of, b"b"));
        std::thread::scope(|scope| {
            let waiting = others.map(|other| scope.spawn(move || other.wait(None)));
            first.end(EvaluationEnd::Given(7));
            for waiting in waiting {
                assert_eq!(waiting.join().unwrap(), Some(EvaluationEnd::Given(7)));
            }
        });
        assert!(matches!(of.turn(b"a"), FilterTurn::Kept(7)));
    }

    #[test]
    fn what_is_refused_or_dropped_is_told_and_not_kept() {
        let of = evaluations();
        for outcome in [EvaluationEnd::Refused("no".to_owned()), EvaluationEnd::Dropped] {
            let first = claim(&of, b"a");
            let other = waits(&of, b"a");
            match &outcome {
                EvaluationEnd::Dropped => drop(first),
                outcome => first.end(outcome.clone()),
            }
            assert_eq!(other.wait(Some(Instant::now())), Some(outcome));
        }
        claim(&of, b"a").end(EvaluationEnd::Given(1));
    }

    #[test]
    fn few_go_on_apart_at_once() {
        let of = evaluations();
        let mut claims: Vec<_> =
            (0..=APART_MOST as u8).map(|filter| claim(&of, &[filter])).collect();
        let may: Vec<_> = claims.iter_mut().map(Claim::goes_apart).collect();
        assert_eq!(may, [true, true, false]);
        assert!(claims[0].goes_apart(), "once is as good as twice");
        claims.remove(0).end(EvaluationEnd::Given(1));
        assert!(claims[1].goes_apart(), "there is room again");
        drop(claims);
        assert_eq!(of.lock().apart, 0);
    }
}
