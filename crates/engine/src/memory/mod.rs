//! The accountant: who holds how many bytes of memory, and whether more may be taken.
//!
//! One [`Accountant`] per process serves all open indexes ([`Accountant::process`]); tests make
//! their own. Every long-lived buffer of the engine is covered by a [`Reservation`] in a named
//! [`Pool`], given back when it is dropped. The accountant counts; it allocates nothing for the
//! holder and knows no file. What page caches hold gives way to all others ([`Elastic`]).
//!
//! Invariant: the sum over all pools never exceeds the limit in force when the last reservation
//! was granted. Lowering the limit below what is held refuses growth; it takes nothing away.

mod elastic;
mod freed;
mod ledger;
mod limit;
mod physical;
mod pools;

pub use elastic::Elastic;
pub use freed::return_freed;
pub use ledger::OverLimit;
pub use limit::{MemoryLimit, ParseLimitError};
pub use physical::physical_bytes;
pub use pools::Pool;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, Weak};

use self::elastic::{GaveWay, Members};
use self::ledger::Ledger;

/// Counts the bytes held in each pool against one limit.
pub struct Accountant {
    ledger: Ledger,
    elastic: Members,
    /// Whether a thread divides anew what gives way.
    balancing: AtomicBool,
}

impl fmt::Debug for Accountant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accountant")
            .field("limit_bytes", &self.limit_bytes())
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}

impl Accountant {
    /// An accountant with a limit in bytes, or none. A limit above [`physical_bytes`]
    /// counts as these, which is said once as a warning.
    pub fn new(limit_bytes: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            ledger: Ledger::new(limit_bytes),
            elastic: Members::default(),
            balancing: AtomicBool::new(false),
        })
    }

    /// The accountant that all indexes of this process share unless told otherwise. It starts
    /// without a limit.
    pub fn process() -> Arc<Self> {
        static PROCESS: OnceLock<Arc<Accountant>> = OnceLock::new();
        Arc::clone(PROCESS.get_or_init(|| Self::new(None)))
    }

    /// The limit in bytes, or `None` where there is none.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.ledger.limit_bytes()
    }

    /// Sets the limit in bytes, or lifts it. One above [`physical_bytes`] counts as in
    /// [`new`](Self::new). Takes nothing from anyone: an open index gives pages back
    /// where its own limit is changed.
    pub fn set_limit_bytes(&self, limit: Option<u64>) {
        self.ledger.set_limit_bytes(limit);
    }

    /// Bytes held by all pools.
    pub fn held_bytes(&self) -> u64 {
        self.ledger.held_bytes()
    }

    /// Bytes held by one pool.
    pub fn pool_bytes(&self, pool: Pool) -> u64 {
        self.ledger.pool_bytes(pool)
    }

    /// Bytes that may still be reserved.
    pub fn free_bytes(&self) -> u64 {
        self.ledger.free_bytes()
    }

    /// Bytes that may still be reserved when all that gives way has done so.
    pub fn available_bytes(&self) -> u64 {
        self.free_bytes().saturating_add(self.elastic.held_bytes())
    }

    /// From now on this holder's memory gives way to other reservations, until it is dropped.
    pub fn add_elastic(&self, holder: Weak<dyn Elastic>) {
        self.elastic.add(holder);
    }

    /// Keeps memory from changing hands until this is dropped.
    pub(crate) fn keep_divided(&self) -> MutexGuard<'_, ()> {
        self.elastic.keep_still()
    }

    /// Divides what is left of the limit anew among those whose memory gives way, by how much
    /// each is used.
    pub fn balance(&self) {
        self.elastic.balance(&self.ledger);
    }

    /// As [`balance`](Self::balance), on a thread that ends with it; none where one is at it.
    pub fn balance_behind(self: &Arc<Self>) {
        if self.balancing.swap(true, Ordering::AcqRel) {
            return;
        }
        let accountant = Arc::clone(self);
        let body = move || {
            accountant.balance();
            accountant.balancing.store(false, Ordering::Release);
        };
        let named = std::thread::Builder::new().name("pipeann-memory".into());
        if named.spawn(body).is_err() {
            self.balancing.store(false, Ordering::Release);
        }
    }

    /// Takes `bytes` for `pool` until the reservation is dropped. Where the limit leaves too
    /// little, memory that gives way is taken back, which waits for searches to let go of it; so
    /// this is not called by who holds what searches wait for.
    ///
    /// # Errors
    /// [`OverLimit`] where the sum over all pools would pass the limit all the same; nothing is
    /// taken then.
    pub fn reserve(self: &Arc<Self>, pool: Pool, bytes: u64) -> Result<Reservation, OverLimit> {
        /// Others may be faster with what was given back, and a member may give nothing just then.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            match self.reserve_free(pool, bytes) {
                Err(refused) => match self.elastic.make_room(&self.ledger, bytes) {
                    GaveWay::None => return Err(refused),
                    GaveWay::Made | GaveWay::Later => {}
                },
                granted => return granted,
            }
        }
        self.reserve_free(pool, bytes)
    }

    /// As [`reserve`](Self::reserve), of what is free: nothing gives way for it.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn reserve_free(
        self: &Arc<Self>,
        pool: Pool,
        bytes: u64,
    ) -> Result<Reservation, OverLimit> {
        self.ledger.take(pool, bytes)?;
        Ok(Reservation { accountant: Arc::clone(self), pool, bytes })
    }
}

/// Bytes taken from an [`Accountant`], given back on drop.
#[derive(Debug)]
pub struct Reservation {
    accountant: Arc<Accountant>,
    pool: Pool,
    bytes: u64,
}

impl Reservation {
    /// Bytes held by this reservation.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives a part back.
    ///
    /// # Panics
    /// Where so much is not held.
    pub fn give_back(&mut self, bytes: u64) {
        self.bytes = self.bytes.checked_sub(bytes).expect("no more than is held is given back");
        self.accountant.ledger.give_back(self.pool, bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_counted_and_given_back() {
        let a = Accountant::new(Some(100));
        let codes = a.reserve(Pool::Codes, 60).unwrap();
        let pages = a.reserve(Pool::PageCache, 40).unwrap();
        assert_eq!((a.held_bytes(), a.free_bytes()), (100, 0));
        assert_eq!(a.pool_bytes(Pool::Codes), 60);
        drop(codes);
        assert_eq!((a.held_bytes(), a.pool_bytes(Pool::Codes)), (40, 0));
        drop(pages);
        assert_eq!(a.held_bytes(), 0);
    }

    #[test]
    fn a_refusal_names_the_limit_that_would_do_and_takes_nothing() {
        let a = Accountant::new(Some(100));
        let _held = a.reserve(Pool::Codes, 90).unwrap();
        let refused = a.reserve(Pool::HeadIndex, 30).unwrap_err();
        assert_eq!(refused.needed_bytes(), 120);
        assert!(refused.to_string().contains("at least 120 bytes"), "{refused}");
        assert_eq!(a.held_bytes(), 90);
        a.set_limit_bytes(Some(120));
        assert!(a.reserve(Pool::HeadIndex, 30).is_ok());
    }

    #[test]
    fn a_limit_above_the_memory_of_the_machine_counts_as_all_of_it() {
        let all = Some(physical_bytes());
        let a = Accountant::new(Some(u64::MAX - 1));
        assert_eq!(a.limit_bytes(), all);
        a.set_limit_bytes(Some(1 << 20));
        assert_eq!(a.limit_bytes(), Some(1 << 20));
        a.set_limit_bytes(Some(1 << 60));
        assert_eq!(a.limit_bytes(), all);
        a.set_limit_bytes(None);
        assert_eq!(a.limit_bytes(), None, "no limit is no limit");
    }

    #[test]
    fn a_part_of_a_reservation_is_given_back() {
        let a = Accountant::new(Some(100));
        let mut held = a.reserve(Pool::PageCache, 80).unwrap();
        held.give_back(30);
        assert_eq!((held.bytes(), a.held_bytes(), a.pool_bytes(Pool::PageCache)), (50, 50, 50));
        drop(held);
        assert_eq!(a.held_bytes(), 0);
    }

    #[test]
    fn a_lowered_limit_refuses_growth_only() {
        let a = Accountant::new(None);
        let held = a.reserve(Pool::Codes, 1000).unwrap();
        a.set_limit_bytes(Some(10));
        assert_eq!(a.free_bytes(), 0);
        assert!(a.reserve(Pool::Codes, 1).is_err());
        assert!(a.reserve(Pool::Codes, u64::MAX).is_err(), "no overflow");
        drop(held);
        assert!(a.reserve(Pool::Codes, 10).is_ok());
    }
}
