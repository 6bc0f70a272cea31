//! The numbers of the accountant: the limit, and what is held, in all and by pool.

use std::fmt;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use super::physical::physical_bytes;
use super::pools::Pool;

/// A reservation that would pass the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// The pool that wanted to grow.
    pub pool: Pool,
    /// Bytes asked for.
    pub asked_bytes: u64,
    /// Bytes held already, by all pools.
    pub held_bytes: u64,
    /// The limit in force, bytes.
    pub limit_bytes: u64,
}

impl OverLimit {
    /// The smallest limit under which the reservation would have been granted, bytes.
    pub fn needed_bytes(&self) -> u64 {
        self.held_bytes.saturating_add(self.asked_bytes)
    }
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "memory limit of {} bytes is too low: {} needs {} bytes beside {} already held; \
             set the limit to at least {} bytes",
            self.limit_bytes,
            self.pool.name(),
            self.asked_bytes,
            self.held_bytes,
            self.needed_bytes()
        )
    }
}

impl std::error::Error for OverLimit {}

/// See the module's description.
pub(super) struct Ledger {
    limit_bytes: AtomicU64,
    total_bytes: AtomicU64,
    pools: [AtomicU64; Pool::ALL.len()],
}

impl Ledger {
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self {
            limit_bytes: AtomicU64::new(within_the_machine(limit)),
            total_bytes: AtomicU64::new(0),
            pools: Default::default(),
        }
    }

    pub(super) fn limit_bytes(&self) -> Option<u64> {
        let limit = self.limit_bytes.load(Ordering::Relaxed);
        (limit != u64::MAX).then_some(limit)
    }

    pub(super) fn set_limit_bytes(&self, limit: Option<u64>) {
        self.limit_bytes.store(within_the_machine(limit), Ordering::Relaxed);
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn pool_bytes(&self, pool: Pool) -> u64 {
        self.pools[pool as usize].load(Ordering::Relaxed)
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed).saturating_sub(self.held_bytes())
    }

    /// Notes bytes as held, where the limit leaves so many.
    pub(super) fn take(&self, pool: Pool, bytes: u64) -> Result<(), OverLimit> {
        let limit_bytes = self.limit_bytes.load(Ordering::Relaxed);
        self.total_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                held.checked_add(bytes).filter(|&sum| sum <= limit_bytes)
            })
            .map_err(|held_bytes| OverLimit {
                pool,
                asked_bytes: bytes,
                held_bytes,
                limit_bytes,
            })?;
        self.pools[pool as usize].fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn give_back(&self, pool: Pool, bytes: u64) {
        self.pools[pool as usize].fetch_sub(bytes, Ordering::Relaxed);
        self.total_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A limit as it is kept: `u64::MAX` is none.
fn within_the_machine(limit: Option<u64>) -> u64 {
    static SAID: Once = Once::new();
    let Some(limit) = limit else { return u64::MAX };
    let physical = physical_bytes();
    if limit > physical {
        SAID.call_once(|| {
            tracing::warn!(
                "a memory limit of {limit} bytes is more than this process may have; \
                 it counts as {physical} bytes"
            );
        });
    }
    limit.min(physical)
}
