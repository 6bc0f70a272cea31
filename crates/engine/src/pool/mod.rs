//! Threads that search one index for whoever hands them queries, or searches from elsewhere.
//!
//! Each thread has a driver that keeps a fixed number of searches in flight and takes the next one
//! as soon as one ends (BatANN, section 5). What waits does so as bytes: a search takes the memory
//! of a state only while it is in flight. A search whose next page is in another's partition
//! leaves as bytes again; nothing of it stays.
//!
//! A filter comes as bytes that only its [`ResolveFilter`] reads: each server makes an allow-set of
//! its own nodes from them, for searches that begin there and for those that come.
//!
//! Invariants: what was taken in ends exactly once, by the sink; no more waits than was agreed.
//! Deliberately absent: who asked, where partitions are, and what becomes of a search that left.

mod inbox;
mod local;

pub use inbox::Full;
pub use local::{Asked, Filters, LocalCluster, LocalError, Travel, Travelled};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::filter::AllowSet;
use crate::index::{Index, QueryError, check_vector};
use crate::search::{
    Drawn, Ended, Expansion, Feed, Frontier, FrontierError, GraphView, Hit, PageSource,
    SearchError, SearchParams, SearchState, SearchStats,
};
use inbox::Inbox;

/// What a pool is asked to do.
#[derive(Debug)]
pub enum Task {
    /// A query, to be begun: the bytes of one vector, and how it is searched.
    Query(Vec<u8>, Box<SearchParams>),
    /// The same among the rows that pass a filter.
    Filtered(Vec<u8>, Box<SearchParams>, Vec<u8>),
    /// A search from elsewhere, to be gone on with.
    State(Vec<u8>),
    /// Nodes to be expanded once, for a search whose list is kept elsewhere.
    Expand(Box<Frontier>),
    /// What cannot be done, for this reason: its end is told like that of others.
    Refused(String),
}

/// What became of a task.
#[derive(Debug)]
pub enum End {
    /// Up to `k` hits, nearest first, and what the whole search has cost.
    Found(Vec<Hit>, SearchStats),
    /// What an expansion gave, and what it has cost.
    Expanded(Expansion, SearchStats),
    /// It goes on where a partition is.
    Elsewhere {
        /// The partition.
        partition: u32,
        /// The search.
        state: Vec<u8>,
        /// What it has cost so far.
        stats: SearchStats,
    },
    /// There is no answer.
    Failed(PoolError),
}

/// Why a task has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The query cannot be asked of this index. The caller has to change it.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The nodes cannot be expanded here.
    #[error(transparent)]
    Frontier(#[from] FrontierError),
    /// The search failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// It was none that can be done.
    #[error("{0}")]
    Refused(String),
    /// Its time was over before it could begin or go on.
    #[error("the deadline has passed")]
    Deadline,
    /// The pool is closing.
    #[error("the server is closing")]
    Closing,
}

/// Reads filters, for the nodes that can be read here.
pub trait ResolveFilter: Send + Sync {
    /// The nodes here whose rows pass, made by [`Index::allow_here`]. Called on a thread of the pool,
    /// once for each search that comes.
    ///
    /// # Errors
    /// What is wrong with the filter, for whoever wrote it.
    fn resolve(&self, filter: &[u8]) -> Result<Arc<AllowSet>, String>;
}

/// Longest filter that a search can carry, bytes: it goes with every message of it.
pub const FILTER_MAX: usize = 64 << 10;

/// Told of each end, on a thread of the pool.
pub trait Sink: Send + Sync {
    /// The task of this ticket has ended. Must not wait: a thread of the pool does.
    fn ended(&self, ticket: u64, end: End);
}

/// How large a pool is.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Threads; 0 means one for each core.
    pub threads: usize,
    /// Searches in flight on each, 1 to 64.
    pub in_flight: usize,
    /// Tasks that wait at most.
    pub waiting: usize,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { threads: 0, in_flight: 8, waiting: 1024 }
    }
}

/// Sums since the pool began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Queries begun here.
    pub begun: u64,
    /// Searches that came from elsewhere.
    pub came: u64,
    /// Expansions for searches that are kept elsewhere.
    pub expanded: u64,
    /// Searches that left.
    pub left: u64,
    /// Searches that ended here, with an answer or without.
    pub ended: u64,
}

#[derive(Default)]
struct Counters {
    begun: AtomicU64,
    came: AtomicU64,
    expanded: AtomicU64,
    left: AtomicU64,
    ended: AtomicU64,
}

/// See the module's description. Dropping it ends the threads; what still waits fails.
pub struct Pool {
    index: Arc<Index>,
    inbox: Arc<Inbox<Waiting>>,
    counters: Arc<Counters>,
    sink: Arc<dyn Sink>,
    filters: Option<Arc<dyn ResolveFilter>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    deadline: Option<Instant>,
    task: Task,
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
        for number in 0..threads {
            let mut driver = pool.index.take_driver(options.in_flight)?;
            let (index, in_flight) = (Arc::clone(&pool.index), options.in_flight);
            let mut worker = Worker {
                index: Arc::clone(&index),
                inbox: Arc::clone(&pool.inbox),
                counters: Arc::clone(&pool.counters),
                sink: Arc::clone(&pool.sink),
                filters: pool.filters.clone(),
                drawn: None,
                spare: Vec::new(),
                tickets: Vec::new(),
                free: Vec::new(),
            };
            let body = move || {
                // A queue that broke takes its searches with it; the next one begins anew.
                while let Err(error) = driver.work(index.as_ref(), in_flight, &mut worker) {
                    tracing::error!("a thread of searches begins anew: {error}");
                    worker.fail_all(&error);
                    match index.take_driver(in_flight) {
                        Ok(new) => driver = new,
                        Err(error) => {
                            tracing::error!("a thread of searches ends: {error}");
                            return;
                        }
                    }
                }
            };
            let thread = std::thread::Builder::new().name(format!("search-{number}"));
            let thread = thread.spawn(body).map_err(|e| SearchError::Queue(e.to_string()))?;
            pool.threads.push(thread);
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
        let waiting = Waiting { ticket, deadline, task };
        self.inbox.push(waiting).map_err(|Full(waiting)| Full(waiting.task))
    }

    /// What it has done.
    pub fn counts(&self) -> PoolCounts {
        let Counters { begun, came, expanded, left, ended } = &*self.counters;
        let [begun, came, expanded, left, ended] =
            [begun, came, expanded, left, ended].map(|counter| counter.load(Ordering::Relaxed));
        PoolCounts { begun, came, expanded, left, ended }
    }

    /// Tasks that wait.
    pub fn waiting(&self) -> usize {
        self.inbox.len()
    }

    /// The index.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for Waiting { ticket, .. } in self.inbox.close() {
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

/// What one thread draws from and tells.
struct Worker {
    index: Arc<Index>,
    inbox: Arc<Inbox<Waiting>>,
    counters: Arc<Counters>,
    sink: Arc<dyn Sink>,
    filters: Option<Arc<dyn ResolveFilter>>,
    /// What was drawn, with the allow-set of its filter.
    drawn: Option<(Waiting, Option<Arc<AllowSet>>)>,
    /// Buffers of states that came, for those that leave.
    spare: Vec<Vec<u8>>,
    /// Tickets and `k` of searches in flight, by the number that the driver knows them by.
    tickets: Vec<Option<u64>>,
    free: Vec<usize>,
}

/// Buffers kept for states that leave.
const SPARE: usize = 64;

impl Worker {
    fn number(&mut self, ticket: u64) -> usize {
        let number = self.free.pop().unwrap_or_else(|| {
            self.tickets.push(None);
            self.tickets.len() - 1
        });
        self.tickets[number] = Some(ticket);
        number
    }

    fn tell(&mut self, number: usize, end: End) {
        let ticket = self.tickets[number].take().expect("a search in flight has a ticket");
        self.free.push(number);
        let counter = match end {
            End::Elsewhere { .. } => &self.counters.left,
            End::Found(..) | End::Expanded(..) | End::Failed(_) => &self.counters.ended,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.sink.ended(ticket, end);
    }

    fn fail_all(&mut self, error: &SearchError) {
        for number in 0..self.tickets.len() {
            if self.tickets[number].is_some() {
                self.tell(number, End::Failed(error.clone().into()));
            }
        }
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// The nodes that a task may answer with, where it can be begun.
    fn admit(&self, waiting: &Waiting) -> Result<Option<Arc<AllowSet>>, PoolError> {
        if waiting.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(PoolError::Deadline);
        }
        match &waiting.task {
            Task::Query(query, params) => {
                self.index.check_one(query, params)?;
                Ok(None)
            }
            Task::Filtered(query, params, filter) => {
                self.index.check_one(query, params)?;
                self.resolve(filter)
            }
            Task::State(state) => {
                self.resolve(SearchState::filter_of(state).map_err(SearchError::State)?)
            }
            Task::Expand(frontier) => {
                self.index.check_vector_bytes(&frontier.query)?;
                frontier.check(&self.index.view())?;
                Ok(None)
            }
            Task::Refused(why) => Err(PoolError::Refused(why.clone())),
        }
    }

    /// The allow-set of a filter, where there is one.
    fn resolve(&self, filter: &[u8]) -> Result<Option<Arc<AllowSet>>, PoolError> {
        if filter.is_empty() {
            return Ok(None);
        }
        let refused = |why: &str| PoolError::Refused(why.to_owned());
        if filter.len() > FILTER_MAX {
            return Err(refused("the filter is longer than 65536 bytes"));
        }
        let filters = self.filters.as_ref();
        let filters = filters.ok_or_else(|| refused("this server has no columns to filter by"))?;
        filters.resolve(filter).map(Some).map_err(PoolError::Refused)
    }
}

impl Feed for Worker {
    fn draw(&mut self, idle: bool) -> Drawn {
        loop {
            let drawn = if idle { self.inbox.wait() } else { self.inbox.try_pop() };
            match drawn {
                Ok(Some(waiting)) => match self.admit(&waiting) {
                    Ok(allow) => {
                        self.drawn = Some((waiting, allow));
                        return Drawn::Search;
                    }
                    Err(why) => {
                        self.counters.ended.fetch_add(1, Ordering::Relaxed);
                        self.sink.ended(waiting.ticket, End::Failed(why));
                    }
                },
                Ok(None) => return Drawn::Later,
                Err(inbox::Closed) => return Drawn::Over,
            }
        }
    }

    fn begin(
        &mut self,
        state: &mut SearchState,
        view: &GraphView<'_>,
    ) -> (usize, Result<(), SearchError>) {
        let (waiting, allow) = self.drawn.take().expect("a search was drawn");
        let Waiting { ticket, task, .. } = waiting;
        let number = self.number(ticket);
        let mut begin = |query: &[u8], params: &SearchParams, allow| {
            self.counters.begun.fetch_add(1, Ordering::Relaxed);
            let begun = state.begin(view, query, params, allow);
            begun.map_err(|e| SearchError::Unreadable(e.to_string()))
        };
        let begun = match task {
            Task::Query(query, params) => begin(&query, &params, None),
            Task::Filtered(query, params, filter) => {
                let begun = begin(&query, &params, allow);
                state.set_filter(&filter);
                begun
            }
            Task::Expand(frontier) => {
                self.counters.expanded.fetch_add(1, Ordering::Relaxed);
                let begun = state.begin_expansion(view, &frontier);
                begun.map_err(|e| SearchError::Unreadable(e.to_string()))
            }
            Task::Refused(_) => unreachable!("it is not admitted"),
            Task::State(bytes) => {
                self.counters.came.fetch_add(1, Ordering::Relaxed);
                let begun = state.import(view, &bytes, allow);
                self.keep(bytes);
                begun.map_err(SearchError::State)
            }
        };
        (number, begun)
    }

    fn ended(&mut self, number: usize, end: Ended<'_>) {
        let end = match end {
            Ended::Found(hits, stats, k) => End::Found(hits[..hits.len().min(k)].to_vec(), stats),
            Ended::Expanded(expansion, stats) => End::Expanded(expansion, stats),
            Ended::Elsewhere(page, state, view) => {
                let mut bytes = self.spare.pop().unwrap_or_default();
                state.export(view, &mut bytes);
                let partition = self.index.partition_of(page) as u32;
                End::Elsewhere { partition, state: bytes, stats: state.stats() }
            }
            Ended::Failed(why) => End::Failed(why.into()),
        };
        self.tell(number, end);
    }
}

impl Index {
    /// Whether a query can be asked of this index.
    fn check_one(&self, query: &[u8], params: &SearchParams) -> Result<(), QueryError> {
        self.check_vector_bytes(query)?;
        Ok(params.validate()?)
    }

    /// Whether the bytes are a vector as this index has them.
    fn check_vector_bytes(&self, query: &[u8]) -> Result<(), QueryError> {
        let layout = self.layout();
        if query.len() != layout.vector_bytes() {
            let found = layout.vector_type().dim_of(query.len());
            return Err(QueryError::Dimension { expected: layout.dim(), found });
        }
        check_vector(query, layout.vector_type(), 0)
    }
}
