//! What is under way on an index, on all threads together: searches, the threads that drive them, and
//! reads; and what their drivers have learnt of the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::pace::{Lap, Pace, PaceShare};

/// Searches that find no other beside them and still count as among others, after the last that did.
///
/// Few clients over several servers leave each by itself most of the time; one client has no company.
const COMPANY: u32 = 32;

#[derive(Debug, Default)]
struct LoadCounts {
    searches: AtomicU32,
    /// How many of [`COMPANY`] are still to come.
    company: AtomicU32,
    threads: AtomicU32,
    reads: AtomicU32,
    pace: Pace,
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub struct ConcurrentLoad(Arc<LoadCounts>);

impl ConcurrentLoad {
    /// Searches under way.
    pub fn searches(&self) -> u32 {
        self.0.searches.load(Ordering::Relaxed)
    }

    /// Whether a single search is under way, and none of the last ones found another when it began.
    pub fn alone(&self) -> bool {
        self.searches() == 1 && self.0.company.load(Ordering::Relaxed) == 0
    }

    /// What searches keep to that begin now.
    pub fn share(&self) -> PaceShare {
        self.0.pace.share(self.searches())
    }

    /// Counts a search until what is returned is dropped.
    #[must_use]
    pub fn begin(&self) -> UnderWay {
        let beside = self.0.searches.fetch_add(1, Ordering::Relaxed);
        let company = &self.0.company;
        let left = company.load(Ordering::Relaxed);
        // Of two that do so at once one may go unnoticed, which is one of many.
        if beside == 0 && left > 0 {
            company.store(left - 1, Ordering::Relaxed);
        } else if beside > 0 && left < COMPANY {
            company.store(COMPANY, Ordering::Relaxed);
        }
        UnderWay(self.clone())
    }

    /// Counts a thread that searches until what is returned is dropped.
    #[must_use]
    pub(super) fn join(&self) -> CountedThread {
        self.0.threads.fetch_add(1, Ordering::Relaxed);
        CountedThread { load: self.clone(), reads: 0 }
    }
}

/// A search that counts as being under way.
#[derive(Debug)]
pub struct UnderWay(ConcurrentLoad);

impl UnderWay {
    /// Of what it is a part.
    pub(super) fn load(&self) -> &ConcurrentLoad {
        &self.0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.searches.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread that counts as searching, with its reads.
#[derive(Debug)]
pub(super) struct CountedThread {
    load: ConcurrentLoad,
    reads: u32,
}

impl CountedThread {
    /// Counts reads that are started; returns how many were under way before, on all threads.
    pub(super) fn started(&mut self, reads: u32) -> u32 {
        self.reads += reads;
        self.load.0.reads.fetch_add(reads, Ordering::Relaxed)
    }

    /// Counts reads that have ended.
    pub(super) fn ended(&mut self, reads: u32) {
        // Those that were started before this thread was counted were not, either.
        let reads = reads.min(self.reads);
        self.reads -= reads;
        self.load.0.reads.fetch_sub(reads, Ordering::Relaxed);
    }

    /// Notes a search that ended and is no longer under way; the threads are counted here.
    pub(super) fn note(&self, lap: Lap) {
        let now = self.load.searches() + 1;
        if now < lap.searches / 2 {
            // Threads run out of searches, which is no idleness that reads in flight could end.
            return;
        }
        // Its reads were those of one alone only where it was so at both ends.
        let searches = lap.searches.max(now);
        let threads = self.load.0.threads.load(Ordering::Relaxed);
        self.load.0.pace.note(&Lap { searches, threads, ..lap });
    }
}

impl Drop for CountedThread {
    fn drop(&mut self) {
        self.ended(self.reads);
        self.load.0.threads.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_counts_until_it_is_dropped() {
        let load = ConcurrentLoad::default();
        let (first, second) = (load.begin(), load.begin());
        assert_eq!(load.searches(), 2);
        drop(first);
        assert_eq!(load.clone().searches(), 1);
        drop(second);
        assert_eq!(load.searches(), 0);
    }

    #[test]
    fn a_search_is_alone_when_none_was_beside_the_last_ones() {
        let load = ConcurrentLoad::default();
        assert!(!load.alone(), "there is none");
        let first = load.begin();
        assert!(load.alone());
        let second = load.begin();
        assert!(!load.alone());
        drop(first);
        assert!(!load.alone(), "it was not when it began");
        drop(second);
        let later: Vec<bool> = (0..COMPANY + 2)
            .map(|_| {
                let _search = load.begin();
                load.alone()
            })
            .collect();
        let among = later.iter().take_while(|alone| !**alone).count();
        assert_eq!(among, COMPANY as usize - 1);
        assert!(later[among..].iter().all(|alone| *alone));
    }

    #[test]
    fn reads_of_a_thread_count_until_they_end_or_it_leaves() {
        let load = ConcurrentLoad::default();
        let (mut first, mut second) = (load.join(), load.join());
        assert_eq!([first.started(3), second.started(2), first.started(1)], [0, 3, 5]);
        first.ended(2);
        assert_eq!(second.started(0), 4);
        // More than were counted are none of its own.
        second.ended(9);
        assert_eq!(second.started(0), 2);
        drop(first);
        assert_eq!(second.started(0), 0);
        assert_eq!(load.0.threads.load(Ordering::Relaxed), 1);
    }
}
