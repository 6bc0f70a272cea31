//! A ring between two threads: one pushes, the other pops, neither waits.
//!
//! Positions only grow; a slot is its position modulo the capacity. The producer alone moves
//! `tail`, the consumer alone `head`, each publishing with release what the other acquires.
//! `sync` is what the module above says: the standard library's types, or those of loom, which
//! tries all orders of the same source (`model.rs`).
//!
//! Invariant: slots from `head` to `tail` hold values, and only the consumer touches them; the
//! others are the producer's.

#![expect(unsafe_code, reason = "slots change hands between two threads")]

use std::mem::MaybeUninit;

use super::sync::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell};

/// On a cache line of its own, so that the two ends do not fetch each other's.
#[repr(align(128))]
struct CacheLine<T>(T);

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    head: CacheLine<AtomicUsize>,
    tail: CacheLine<AtomicUsize>,
    /// One end is gone.
    closed: AtomicBool,
}

// SAFETY: a slot is touched by one end at a time, as the positions say; `T` moves between threads.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn slot(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[position & (self.slots.len() - 1)]
    }
}

/// The end that pushes.
pub(crate) struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    /// Where the consumer was when it was last looked for.
    head: usize,
}

/// The end that pops.
pub(crate) struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
    /// Where the producer was when it was last looked for.
    tail: usize,
}

/// A ring for at least `capacity` values, and at least one. Values are `Copy`: none needs a drop.
pub(crate) fn ring<T: Copy>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let slots = (0..capacity.max(1).next_power_of_two())
        .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
        .collect();
    let shared = Arc::new(Shared {
        slots,
        head: CacheLine(AtomicUsize::new(0)),
        tail: CacheLine(AtomicUsize::new(0)),
        closed: AtomicBool::new(false),
    });
    let consumer = Consumer { shared: Arc::clone(&shared), head: 0, tail: 0 };
    (Producer { shared, tail: 0, head: 0 }, consumer)
}

impl<T: Copy> Producer<T> {
    /// Appends a value, which comes back where the ring is full.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        let capacity = self.shared.slots.len();
        if self.tail - self.head == capacity {
            self.head = self.shared.head.0.load(Ordering::Acquire);
            if self.tail - self.head == capacity {
                return Err(value);
            }
        }
        self.shared.slot(self.tail).with_mut(|slot| {
            // SAFETY: the consumer has left this slot, which `head` told with acquire, and does
            // not return to it before `tail` has passed it.
            unsafe { (*slot).write(value) };
        });
        self.tail += 1;
        self.shared.tail.0.store(self.tail, Ordering::Release);
        Ok(())
    }
}

impl<T: Copy> Consumer<T> {
    /// The oldest value, if there is one.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.head == self.tail {
            self.tail = self.shared.tail.0.load(Ordering::Acquire);
            if self.head == self.tail {
                return None;
            }
        }
        let value = self.shared.slot(self.head).with(|slot| {
            // SAFETY: the producer wrote this slot before it moved `tail` past it, which was read
            // with acquire, and does not return to it before `head` has passed it.
            unsafe { (*slot).assume_init() }
        });
        self.head += 1;
        self.shared.head.0.store(self.head, Ordering::Release);
        Some(value)
    }

    /// Whether the other end is gone. What it pushed before may still be there.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}
