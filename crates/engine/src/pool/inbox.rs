//! A bounded queue that threads wait at.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// There is no room; gives back what was to be put.
#[derive(Debug)]
pub struct Full<T>(pub T);

/// Nothing comes any more.
#[derive(Debug)]
pub(super) struct Closed;

struct Queue<T> {
    items: VecDeque<T>,
    closed: bool,
}

pub(super) struct Inbox<T> {
    queue: Mutex<Queue<T>>,
    changed: Condvar,
    most: usize,
}

impl<T> Inbox<T> {
    /// For so many at most.
    pub(super) fn new(most: usize) -> Self {
        let queue = Queue { items: VecDeque::new(), closed: false };
        Self { queue: Mutex::new(queue), changed: Condvar::new(), most }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one at the end, unless there is no room or it is closed.
    pub(super) fn push(&self, item: T) -> Result<(), Full<T>> {
        let mut queue = self.lock();
        if queue.closed || queue.items.len() >= self.most {
            return Err(Full(item));
        }
        queue.items.push_back(item);
        drop(queue);
        self.changed.notify_one();
        Ok(())
    }

    /// The first one; none where there is none now.
    pub(super) fn try_pop(&self) -> Result<Option<T>, Closed> {
        let mut queue = self.lock();
        if queue.closed { Err(Closed) } else { Ok(queue.items.pop_front()) }
    }

    /// The first one, waiting for it.
    pub(super) fn wait(&self) -> Result<Option<T>, Closed> {
        let empty = |queue: &mut Queue<T>| queue.items.is_empty() && !queue.closed;
        let queue = self.changed.wait_while(self.lock(), empty);
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        if queue.closed { Err(Closed) } else { Ok(queue.items.pop_front()) }
    }

    /// Number of those that wait.
    pub(super) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Lets nothing in any more; gives what waited.
    pub(super) fn close(&self) -> VecDeque<T> {
        let mut queue = self.lock();
        queue.closed = true;
        let left = std::mem::take(&mut queue.items);
        drop(queue);
        self.changed.notify_all();
        left
    }
}
