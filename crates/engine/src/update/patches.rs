//! Changes of pages in memory, until a checkpoint folds them into the pages on disk.
//!
//! Pages are spread over shards, each with a latch that is held to look one page up or to change
//! it, and never over I/O. What a search took from here stays as it was: a change copies what is
//! still being looked at.
//!
//! Memory is reserved in grains while there is room for them; what is charged never exceeds what is reserved, except for
//! lists that were pruned ([`Patches::charge_anyway`]), which the next insert then pays for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::page_table::PageTable;
use crate::memory::{Accountant, OverLimit, Pool, Reservation};
use crate::search::PagePatch;
use crate::types::PageId;

const SHARDS: usize = 64;
/// Bytes reserved at once.
const GRAIN_BYTES: u64 = 1 << 20;

type PatchShard = PageTable<Arc<PagePatch>>;

/// See the module's description.
pub(super) struct Patches {
    shards: Box<[RwLock<PatchShard>]>,
    accountant: Arc<Accountant>,
    held: Mutex<Vec<Reservation>>,
    reserved_bytes: AtomicU64,
    charged_bytes: AtomicU64,
}

impl Patches {
    pub(super) fn new(accountant: Arc<Accountant>) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            accountant,
            held: Mutex::default(),
            reserved_bytes: AtomicU64::new(0),
            charged_bytes: AtomicU64::new(0),
        }
    }

    fn shard(&self, page: PageId) -> &RwLock<PatchShard> {
        &self.shards[page.0 as usize % SHARDS]
    }

    /// What is new in `page`.
    pub(super) fn get(&self, page: PageId) -> Option<Arc<PagePatch>> {
        // A patch is changed by operations that do not panic half way.
        let shard = self.shard(page).read().unwrap_or_else(PoisonError::into_inner);
        shard.get(&page.0).cloned()
    }

    /// Changes what is new in `page`. `change` is short and does no I/O.
    pub(super) fn change<T>(&self, page: PageId, change: impl FnOnce(&mut PagePatch) -> T) -> T {
        let mut shard = self.shard(page).write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(shard.entry(page.0).or_default()))
    }

    /// All pages with something new, ascending.
    pub(super) fn pages(&self) -> Vec<PageId> {
        let mut pages = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            pages.extend(shard.keys().map(|&page| PageId(page)));
        }
        pages.sort_unstable();
        pages
    }

    /// Takes `bytes` from the memory of pending changes.
    ///
    /// # Errors
    /// [`OverLimit`]; nothing is taken then.
    pub(super) fn charge(&self, bytes: u64) -> Result<(), OverLimit> {
        let wanted = self.charged_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let outcome = self.reserve_up_to(wanted);
        if outcome.is_err() {
            self.charged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        outcome
    }

    /// Gives back what was charged and not needed.
    pub(super) fn discharge(&self, bytes: u64) {
        self.charged_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts `bytes` that are in use already; what the limit refuses is asked for again by the
    /// next [`charge`](Self::charge).
    pub(super) fn charge_anyway(&self, bytes: u64) {
        self.charged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> u64 {
        self.charged_bytes.load(Ordering::Relaxed)
    }

    fn reserve_up_to(&self, wanted: u64) -> Result<(), OverLimit> {
        if wanted <= self.reserved_bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = wanted.saturating_sub(self.reserved_bytes.load(Ordering::Relaxed));
        if missing > 0 {
            let grain = missing.next_multiple_of(GRAIN_BYTES);
            // Near the limit there may be room for less.
            let taken = self.accountant.reserve(Pool::Pending, grain);
            let taken = taken.or_else(|_| self.accountant.reserve(Pool::Pending, missing))?;
            self.reserved_bytes.fetch_add(taken.bytes(), Ordering::Relaxed);
            held.push(taken);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reserved_in_grains_and_refused_at_the_limit() {
        let accountant = Accountant::new(Some(3 * GRAIN_BYTES));
        let patches = Patches::new(Arc::clone(&accountant));
        patches.charge(10).unwrap();
        assert_eq!(accountant.pool_bytes(Pool::Pending), GRAIN_BYTES);
        patches.charge(2 * GRAIN_BYTES).unwrap();
        assert_eq!(accountant.pool_bytes(Pool::Pending), 3 * GRAIN_BYTES);
        assert!(patches.charge(GRAIN_BYTES).is_err());
        assert_eq!(patches.bytes(), 2 * GRAIN_BYTES + 10, "a refusal takes nothing");
        patches.charge_anyway(GRAIN_BYTES);
        assert!(patches.charge(1).is_err(), "the next one pays");
        drop(patches);
        assert_eq!(accountant.held_bytes(), 0);
    }
}
