//! A bounded queue that threads wait at, or at which they leave word how they are reached while they
//! wait for something else.
//!
//! Whoever puts something wakes one thread: one that sleeps here, else one whose wait for reads can be
//! ended. Where all are at work he spares the system call: they look here before they sleep.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::io::Waker;

/// There is no room; gives back what was to be put.
#[derive(Debug)]
pub struct Full<T>(pub T);

/// Nothing comes any more.
#[derive(Debug)]
pub(super) struct Closed;

struct InboxQueue<T> {
    items: VecDeque<T>,
    /// The most of them at once.
    longest: usize,
    closed: bool,
    /// Threads that sleep and that nobody has woken yet, at least.
    sleeping: usize,
    /// Numbers of threads that wait for reads and that nobody has woken yet.
    pausing: Vec<usize>,
    /// How they are woken, by their number.
    wakers: Vec<Option<Waker>>,
}

pub(super) struct Inbox<T> {
    queue: Mutex<InboxQueue<T>>,
    changed: Condvar,
    /// Told when it is closed.
    closing: Condvar,
    most: usize,
    /// Something waits, or it is closed.
    has_more: AtomicBool,
}

impl<T> Inbox<T> {
    /// For so many at most.
    pub(super) fn new(most: usize) -> Self {
        let (items, pausing, wakers) = (VecDeque::new(), Vec::new(), Vec::new());
        let (longest, closed, sleeping) = (0, false, 0);
        let queue = InboxQueue { items, longest, closed, sleeping, pausing, wakers };
        let has_more = AtomicBool::new(false);
        let (changed, closing) = (Condvar::new(), Condvar::new());
        Self { queue: Mutex::new(queue), changed, closing, most, has_more }
    }

    fn lock(&self) -> MutexGuard<'_, InboxQueue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how waits for reads of a thread are ended.
    pub(super) fn register(&self, number: usize, waker: Waker) {
        let mut queue = self.lock();
        if queue.wakers.len() <= number {
            queue.wakers.resize(number + 1, None);
        }
        queue.wakers[number] = Some(waker);
    }

    /// Puts one at the end, unless there is no room or it is closed.
    pub(super) fn push(&self, item: T) -> Result<(), Full<T>> {
        let mut queue = self.lock();
        if queue.closed || queue.items.len() >= self.most {
            return Err(Full(item));
        }
        queue.items.push_back(item);
        queue.longest = queue.longest.max(queue.items.len());
        self.has_more.store(true, Ordering::Relaxed);
        let sleeps = queue.sleeping > 0;
        queue.sleeping -= usize::from(sleeps);
        let pauses = if sleeps { None } else { queue.pausing.pop() };
        let waker = pauses.and_then(|number| queue.wakers[number].clone());
        drop(queue);
        if sleeps {
            self.changed.notify_one();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// The first one; none where there is none now.
    pub(super) fn try_pop(&self) -> Result<Option<T>, Closed> {
        self.take(&mut self.lock())
    }

    /// The first one, waiting for it.
    pub(super) fn wait(&self) -> Result<Option<T>, Closed> {
        let mut queue = self.lock();
        while queue.items.is_empty() && !queue.closed {
            // Of one that wakes by itself too much is counted, which costs a call for nobody.
            queue.sleeping += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        self.take(&mut queue)
    }

    fn take(&self, queue: &mut InboxQueue<T>) -> Result<Option<T>, Closed> {
        if queue.closed {
            return Err(Closed);
        }
        let item = queue.items.pop_front();
        self.has_more.store(!queue.items.is_empty(), Ordering::Relaxed);
        Ok(item)
    }

    /// Whether there is something to look at, without waiting for who looks at it.
    pub(super) fn has_more(&self) -> bool {
        self.has_more.load(Ordering::Relaxed)
    }

    /// A thread is about to wait for reads. False where there is something for it here.
    pub(super) fn pause(&self, number: usize) -> bool {
        let mut queue = self.lock();
        let waits = queue.items.is_empty() && !queue.closed;
        if waits {
            queue.pausing.push(number);
        }
        waits
    }

    /// It waits no longer.
    pub(super) fn resume(&self, number: usize) {
        self.lock().pausing.retain(|pausing| *pausing != number);
    }

    /// Waits so long, whatever comes, or until it is closed; says whether it is.
    pub(super) fn rest(&self, time: Duration) -> bool {
        let waited = self.closing.wait_timeout_while(self.lock(), time, |queue| !queue.closed);
        waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    /// Number of those that wait.
    pub(super) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// The most that have waited at once.
    pub(super) fn longest(&self) -> usize {
        self.lock().longest
    }

    /// Lets nothing in any more; gives what waited.
    pub(super) fn close(&self) -> VecDeque<T> {
        let mut queue = self.lock();
        queue.closed = true;
        self.has_more.store(true, Ordering::Relaxed);
        let left = std::mem::take(&mut queue.items);
        let pausing: Vec<_> = std::mem::take(&mut queue.pausing);
        let wakers: Vec<_> = pausing.iter().filter_map(|of| queue.wakers[*of].clone()).collect();
        drop(queue);
        self.changed.notify_all();
        self.closing.notify_all();
        wakers.iter().for_each(Waker::wake);
        left
    }
}
