//! Memory that is lent comes back where somebody needs it.

use super::*;
use crate::memory::{Accountant, Pool, Reservation};

/// Holds reservations of 1 KiB each, as many as it has.
struct Cache {
    accountant: Arc<Accountant>,
    held: Mutex<Vec<Reservation>>,
    wanted: u64,
    uses: AtomicU64,
}

const KIB: u64 = 1024;

impl Cache {
    fn of(accountant: &Arc<Accountant>, wanted: u64) -> Arc<Self> {
        let accountant = Arc::clone(accountant);
        let (held, uses) = (Mutex::default(), AtomicU64::new(0));
        let cache = Arc::new(Self { accountant, held, wanted, uses });
        let member: Arc<dyn Elastic> = Arc::clone(&cache) as _;
        cache.accountant.add_elastic(Arc::downgrade(&member));
        cache
    }

    fn use_often(&self, times: u64) {
        self.uses.fetch_add(times, Ordering::Relaxed);
    }
}

impl Elastic for Cache {
    fn held_bytes(&self) -> u64 {
        lock(&self.held).len() as u64 * KIB
    }

    fn wanted_bytes(&self) -> u64 {
        self.wanted
    }

    fn leaves_bytes(&self) -> u64 {
        32 * KIB
    }

    fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    fn give_back(&self, bytes: u64) -> u64 {
        let mut held = lock(&self.held);
        let left = held.len().saturating_sub(bytes.div_ceil(KIB) as usize);
        let given = (held.len() - left) as u64 * KIB;
        held.truncate(left);
        given
    }

    fn take(&self, bytes: u64) {
        for _ in 0..bytes / KIB {
            let Ok(held) = self.accountant.reserve_free(Pool::PageCache, KIB) else { return };
            lock(&self.held).push(held);
        }
    }
}

#[test]
fn caches_give_way_to_whoever_needs_memory() {
    let accountant = Accountant::new(Some(1024 * KIB));
    let (cold, hot) = (Cache::of(&accountant, 4096 * KIB), Cache::of(&accountant, 4096 * KIB));
    accountant.balance();
    assert_eq!((cold.held_bytes(), hot.held_bytes()), (496 * KIB, 496 * KIB));
    assert_eq!(accountant.free_bytes(), 32 * KIB, "a little is left free");
    hot.use_often(1000);
    let codes = accountant.reserve(Pool::Codes, 500 * KIB).unwrap();
    assert_eq!(hot.held_bytes(), 496 * KIB, "the least used gives way");
    assert_eq!(cold.held_bytes(), 496 * KIB - 468 * KIB);
    assert!(accountant.held_bytes() <= 1024 * KIB);
    // Refused only where it would be with all caches empty, and then nothing is taken.
    let before = (cold.held_bytes(), hot.held_bytes());
    let refused = accountant.reserve(Pool::Codes, 525 * KIB).unwrap_err();
    assert_eq!((cold.held_bytes(), hot.held_bytes()), before);
    assert!(refused.needed_bytes() > 1024 * KIB);
    let _rest = accountant.reserve(Pool::Codes, 524 * KIB).unwrap();
    assert_eq!((cold.held_bytes(), hot.held_bytes()), (0, 0));
    drop(codes);
    accountant.balance();
    assert!(hot.held_bytes() > 400 * KIB, "{}", hot.held_bytes());
}

#[test]
fn memory_goes_where_it_is_used() {
    let accountant = Accountant::new(Some(1024 * KIB));
    let first = Cache::of(&accountant, 4096 * KIB);
    first.take(992 * KIB);
    let second = Cache::of(&accountant, 4096 * KIB);
    second.use_often(3000);
    first.use_often(1000);
    accountant.balance();
    let held = (first.held_bytes() / KIB, second.held_bytes() / KIB);
    assert!((270..280).contains(&held.0) && (710..720).contains(&held.1), "{held:?}");
    // Use is that since the last time, and nobody gets more than it wants.
    let small = Cache::of(&accountant, 64 * KIB);
    small.use_often(1_000_000);
    first.use_often(10);
    accountant.balance();
    assert_eq!(small.held_bytes(), 64 * KIB);
    let held = (first.held_bytes() / KIB, second.held_bytes() / KIB);
    assert!(held.0 + held.1 > 890 && held.0 + held.1 <= 928, "{held:?}");
    drop(second);
    accountant.balance();
    assert!(first.held_bytes() >= 920 * KIB, "{}", first.held_bytes());
}

#[test]
fn without_a_limit_nothing_moves() {
    let accountant = Accountant::new(None);
    let cache = Cache::of(&accountant, 4096 * KIB);
    cache.take(10 * KIB);
    accountant.balance();
    assert_eq!(cache.held_bytes(), 10 * KIB);
    assert!(accountant.reserve(Pool::Codes, 1 << 40).is_ok());
    assert_eq!(cache.held_bytes(), 10 * KIB);
}

/// Gives nothing the first time, as one does at whose memory somebody looks for long.
struct Reluctant {
    cache: Arc<Cache>,
    asked: AtomicU64,
}

impl Elastic for Reluctant {
    fn held_bytes(&self) -> u64 {
        self.cache.held_bytes()
    }

    fn wanted_bytes(&self) -> u64 {
        self.cache.wanted_bytes()
    }

    fn leaves_bytes(&self) -> u64 {
        self.cache.leaves_bytes()
    }

    fn uses(&self) -> u64 {
        self.cache.uses()
    }

    fn give_back(&self, bytes: u64) -> u64 {
        let first = self.asked.fetch_add(1, Ordering::Relaxed) == 0;
        if first { 0 } else { self.cache.give_back(bytes) }
    }

    fn take(&self, bytes: u64) {
        self.cache.take(bytes);
    }
}

#[test]
fn a_cache_that_gives_nothing_just_then_is_asked_again() {
    let accountant = Accountant::new(Some(1024 * KIB));
    let cache = {
        let (held, uses) = (Mutex::default(), AtomicU64::new(0));
        Cache { accountant: Arc::clone(&accountant), held, wanted: 4096 * KIB, uses }
    };
    let reluctant = Arc::new(Reluctant { cache: Arc::new(cache), asked: AtomicU64::new(0) });
    let member: Arc<dyn Elastic> = Arc::clone(&reluctant) as _;
    accountant.add_elastic(Arc::downgrade(&member));
    reluctant.take(1024 * KIB);
    let _codes = accountant.reserve(Pool::Codes, 500 * KIB).unwrap();
    assert!(accountant.held_bytes() <= 1024 * KIB);
    // What all of them together lack is not asked for.
    let asked = reluctant.asked.load(Ordering::Relaxed);
    accountant.reserve(Pool::Codes, 600 * KIB).unwrap_err();
    assert_eq!(reluctant.asked.load(Ordering::Relaxed), asked);
}
