//! Memory for rows that wait for a flush: in the row store, among the vectors of each field, and in
//! the scalar indexes.
//!
//! It is taken as a whole by the first write, before the log has it, so that no write that was
//! logged can fail for want of memory; and given back when nothing waits and nobody has written
//! for a while. A collection that is only read leaves it to pages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pipeann_engine::memory::{Accountant, OverLimit, Pool, Reservation};

use super::CollectionOptions;

/// See the module's description.
pub(super) struct WriteBuffers {
    accountant: Arc<Accountant>,
    parts: [(Pool, u64); 3],
    held: Mutex<Vec<Reservation>>,
    /// Whether `held` is there: looked at by every write.
    is_held: AtomicBool,
    /// Whether a write came since the last rest.
    written: AtomicBool,
}

impl WriteBuffers {
    /// Those of a collection with so many fields of vectors. Nothing is taken yet.
    pub(super) fn new(options: &CollectionOptions, fields: usize) -> Self {
        let vectors = options.tail_bytes.saturating_mul(fields as u64);
        Self {
            accountant: Arc::clone(&options.accountant),
            parts: [
                (Pool::RowStore, options.row_buffer_bytes),
                (Pool::Pending, vectors),
                (Pool::Postings, options.scalar_buffer_bytes),
            ],
            held: Mutex::default(),
            is_held: AtomicBool::new(false),
            written: AtomicBool::new(false),
        }
    }

    /// Takes the memory where it is not held. Called by one writer at a time.
    ///
    /// # Errors
    /// [`OverLimit`]; nothing is taken then.
    pub(super) fn hold(&self) -> Result<(), OverLimit> {
        self.written.store(true, Ordering::Relaxed);
        if self.is_held.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_empty() {
            let taken =
                self.parts.iter().map(|&(pool, bytes)| self.accountant.reserve(pool, bytes));
            *held = taken.collect::<Result<_, _>>()?;
        }
        self.is_held.store(true, Ordering::Release);
        Ok(())
    }

    /// Gives the memory back unless somebody has written since the last call, with nobody writing
    /// and nothing that waits for a flush; says whether it did.
    pub(super) fn trim(&self) -> bool {
        if self.written.swap(false, Ordering::Relaxed) {
            return false;
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_held.store(false, Ordering::Release);
        let rested = !held.is_empty();
        held.clear();
        rested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_held_from_the_first_write_until_a_rest_without_one() {
        let accountant = Accountant::new(Some(100));
        let options = CollectionOptions {
            row_buffer_bytes: 20,
            tail_bytes: 15,
            scalar_buffer_bytes: 10,
            accountant: Arc::clone(&accountant),
            ..CollectionOptions::default()
        };
        let buffers = WriteBuffers::new(&options, 2);
        assert_eq!(accountant.held_bytes(), 0);
        buffers.hold().unwrap();
        buffers.hold().unwrap();
        assert_eq!(accountant.held_bytes(), 60);
        assert_eq!(accountant.pool_bytes(Pool::Pending), 30);
        assert!(!buffers.trim(), "there was a write");
        buffers.hold().unwrap();
        assert!(!buffers.trim(), "there was another");
        assert!(buffers.trim());
        assert!(!buffers.trim(), "there is nothing left");
        assert_eq!(accountant.held_bytes(), 0);
        let _codes = accountant.reserve(Pool::Codes, 50).unwrap();
        assert!(buffers.hold().is_err());
        assert_eq!(accountant.held_bytes(), 50, "a refusal takes nothing");
    }
}
