//! How long searches take lately, by collection, so that none is begun that cannot be answered in time.
//!
//! Where more is asked than can be done, what waits longest has the least time left. Whoever begins it
//! answers too late, and then the next one; so nobody would be answered in time, however much is done.

use std::collections::VecDeque;
use std::time::Duration;

/// Collections that are remembered.
const MOST: usize = 64;
/// How slowly it follows what comes.
const WEIGHT: u32 = 8;
/// How much more time a search has to have left than one took on the average, and than what waits before
/// it is expected to take.
pub(super) const ROOM: u32 = 2;

/// See the module's description.
#[derive(Default)]
pub(super) struct Paces(VecDeque<(usize, Duration)>);

impl Paces {
    /// Searches of a collection were done together, with so many query vectors.
    pub(super) fn note(&mut self, collection: usize, queries: usize, took: Duration) {
        let each = took / u32::try_from(queries.max(1)).unwrap_or(u32::MAX);
        let known = self.0.iter().position(|(of, _)| *of == collection);
        let pace = match known.and_then(|at| self.0.remove(at)) {
            Some((_, before)) => (before * (WEIGHT - 1) + each) / WEIGHT,
            None => each,
        };
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((collection, pace));
    }

    /// The time that so many query vectors take by all that is known; none where nothing is.
    pub(super) fn expected(&self, collection: usize, queries: usize) -> Duration {
        let found = self.0.iter().find(|(of, _)| *of == collection);
        let (_, pace) = found.copied().unwrap_or_default();
        pace.saturating_mul(u32::try_from(queries).unwrap_or(u32::MAX))
    }

    /// The time that so many query vectors are given.
    pub(super) fn needed(&self, collection: usize, queries: usize) -> Duration {
        self.expected(collection, queries).saturating_mul(ROOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_follows_what_comes_and_the_oldest_is_forgotten() {
        let mut paces = Paces::default();
        assert_eq!(paces.needed(1, 5), Duration::ZERO);
        paces.note(1, 10, Duration::from_millis(100));
        assert_eq!(paces.needed(1, 5), Duration::from_millis(100));
        paces.note(1, 1, Duration::from_millis(90));
        assert_eq!(paces.needed(1, 1), Duration::from_millis(40));
        (2..2 + MOST).for_each(|of| paces.note(of, 1, Duration::from_millis(1)));
        assert_eq!(paces.needed(1, 1), Duration::ZERO);
    }
}
