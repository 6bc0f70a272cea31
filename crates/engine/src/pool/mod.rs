//! Threads that search one index for whoever hands them queries, or searches from elsewhere.
//!
//! Each thread has a driver that keeps a fixed number of searches in flight and takes the next one
//! as soon as one ends, or as its [`Discipline`] says (BatANN, section 5). A search that comes while a
//! thread with room waits for reads ends that wait. What waits does so as bytes: a search takes the memory
//! of a state only while it is in flight. A search whose next page is in another's partition
//! leaves as bytes again; nothing of it stays.
//!
//! A filter comes as bytes that only its [`ResolveFilter`] reads: each server makes an allow-set of
//! its own nodes from them, for searches that begin there and for those that come.
//!
//! Invariants: what was taken in ends exactly once, by the sink; no more waits than was agreed.
//! Deliberately absent: who asked, where partitions are, and what becomes of a search that left.

mod counters;
mod discipline;
mod inbox;
mod local;
mod outage;
mod resolve;
mod task;
#[cfg(test)]
mod tests;
mod thread;
mod worker;

pub use counters::{PoolCounts, StateSizes};
pub use discipline::Discipline;
pub use inbox::Full;
pub use local::{Filters, LocalCluster, LocalError, QueryAndFilter, Travel, Travelled};
pub use resolve::{FILTER_MAX, ResolveFilter, Unresolved};
pub use task::{End, PoolError, Sink, Task};

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crate::index::{Index, QueryError};
use crate::io::{Errno, IoError};
use counters::Counters;
use discipline::BatchTurn;
use inbox::Inbox;
use outage::Outage;
use task::WaitingTasks;
use worker::{RingWorker, driver};

/// How large a pool is.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Threads; 0 means one for each core.
    pub threads: usize,
    /// Searches in flight on each, 1 to 64.
    pub in_flight: usize,
    /// Tasks that wait at most.
    pub waiting: usize,
    /// When a thread takes in the next search.
    pub discipline: Discipline,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { threads: 0, in_flight: 8, waiting: 1024, discipline: Discipline::Always }
    }
}

/// See the module's description. Dropping it ends the threads; what still waits fails.
pub struct Pool {
    index: Arc<Index>,
    inbox: Arc<Inbox<WaitingTasks>>,
    counters: Arc<Counters>,
    sink: Arc<dyn Sink>,
    filters: Option<Arc<dyn ResolveFilter>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`QueryError`] where an I/O queue cannot be made.
    pub fn start(
        index: Arc<Index>,
        options: &PoolOptions,
        sink: Arc<dyn Sink>,
    ) -> Result<Self, QueryError> {
        Self::start_filtering(index, options, sink, None)
    }

    /// As [`start`](Self::start), for searches with filters too where there is something to read
    /// them.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_filtering(
        index: Arc<Index>,
        options: &PoolOptions,
        sink: Arc<dyn Sink>,
        filters: Option<Arc<dyn ResolveFilter>>,
    ) -> Result<Self, QueryError> {
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let inbox = Arc::new(Inbox::new(options.waiting));
        let counters = Arc::<Counters>::default();
        let mut pool = Self { index, inbox, counters, sink, filters, threads: Vec::new() };
        let in_flight = options.discipline.in_flight(options.in_flight);
        let outage = Outage::none(threads);
        for number in 0..threads {
            let index = Arc::clone(&pool.index);
            let driver = driver(&index, in_flight, &pool.inbox, number)?;
            let worker = RingWorker {
                number,
                batch: BatchTurn::new(options.discipline, in_flight),
                index,
                inbox: Arc::clone(&pool.inbox),
                counters: Arc::clone(&pool.counters),
                sink: Arc::clone(&pool.sink),
                filters: pool.filters.clone(),
                drawn: None,
                spare: Vec::new(),
                tickets: Vec::new(),
                free: Vec::new(),
                outage: Arc::clone(&outage),
            };
            let body = move || worker.run(driver, in_flight);
            let thread = std::thread::Builder::new().name(format!("search-{number}"));
            let spawned = thread.spawn(body).map_err(|e| IoError::Setup {
                what: "a thread of searches",
                errno: Errno::of(&e),
            })?;
            pool.threads.push(spawned);
        }
        Ok(pool)
    }

    /// Takes a task in; the sink is told of its end by the ticket.
    ///
    /// # Errors
    /// [`Full`], with the task, where as much waits as was agreed.
    pub fn submit(
        &self,
        ticket: u64,
        task: Task,
        deadline: Option<Instant>,
    ) -> Result<(), Full<Task>> {
        let waiting = WaitingTasks { ticket, deadline, task };
        self.inbox.push(waiting).map_err(|Full(waiting)| Full(waiting.task))
    }

    /// What it has done.
    pub fn counts(&self) -> PoolCounts {
        self.counters.sums()
    }

    /// Tasks that wait.
    pub fn waiting(&self) -> usize {
        self.inbox.len()
    }

    /// The most that have waited at once.
    pub fn most_waiting(&self) -> usize {
        self.inbox.longest()
    }

    /// The index.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for WaitingTasks { ticket, .. } in self.inbox.close() {
            self.sink.ended(ticket, End::Failed(PoolError::Closing));
        }
        let here = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last who knows of it may be a thread of its own, telling an end.
            if thread.thread().id() != here {
                // Its panic was told where it happened.
                let _ = thread.join();
            }
        }
    }
}
