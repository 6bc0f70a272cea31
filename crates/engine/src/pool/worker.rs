//! One thread of a pool: what it draws from the inbox and tells the sink.
//!
//! A task is looked at before it is begun, and its filter read; what cannot be begun ends there and then
//! and never reaches the driver. Deliberately absent: when the next search is taken in, which its batch
//! says, and reading, which the driver does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::counters::Counters;
use super::discipline::BatchTurn;
use super::inbox::{self, Inbox};
use super::outage::Outage;
use super::resolve::{FILTER_MAX, ResolveFilter, Unresolved};
use super::task::{End, PoolError, Sink, Task, WaitingTasks};
use crate::filter::AllowSet;
use crate::index::{Index, QueryError, check_vector};
use crate::search::{
    Drawn, Driver, Feed, FeedOutcome, GraphView, PageSource, SearchError, SearchParams, SearchState,
};

/// A driver for a thread, whose waits the inbox can end.
pub(super) fn driver(
    index: &Index,
    in_flight: usize,
    inbox: &Inbox<WaitingTasks>,
    number: usize,
) -> Result<Driver, QueryError> {
    let mut driver = index.take_driver(in_flight)?;
    inbox.register(number, driver.waker().map_err(SearchError::Queue)?);
    Ok(driver)
}

/// What one thread draws from and tells.
pub(super) struct RingWorker {
    pub(super) number: usize,
    pub(super) batch: BatchTurn,
    pub(super) index: Arc<Index>,
    pub(super) inbox: Arc<Inbox<WaitingTasks>>,
    pub(super) counters: Arc<Counters>,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) filters: Option<Arc<dyn ResolveFilter>>,
    /// What was drawn, with the allow-set of its filter.
    pub(super) drawn: Option<(WaitingTasks, Option<Arc<AllowSet>>)>,
    /// Buffers of states that came, for those that leave.
    pub(super) spare: Vec<Vec<u8>>,
    /// Tickets and `k` of searches in flight, by the number that the driver knows them by.
    pub(super) tickets: Vec<Option<u64>>,
    pub(super) free: Vec<usize>,
    /// Which threads of the pool cannot search.
    pub(super) outage: Arc<Outage>,
}

/// Buffers kept for states that leave.
const SPARE: usize = 64;

impl RingWorker {
    /// Another driver for its thread.
    pub(super) fn driver(&self, in_flight: usize) -> Result<Driver, QueryError> {
        driver(&self.index, in_flight, &self.inbox, self.number)
    }

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

    pub(super) fn fail_all(&mut self, error: &SearchError) {
        self.inbox.resume(self.number);
        self.refuse_drawn(error.clone().into());
        for number in 0..self.tickets.len() {
            if self.tickets[number].is_some() {
                self.tell(number, End::Failed(error.clone().into()));
            }
        }
    }

    /// Ends what was drawn and has not begun, if there is something.
    fn refuse_drawn(&mut self, why: PoolError) {
        if let Some((waiting, _)) = self.drawn.take() {
            self.refuse(&waiting, why);
        }
    }

    fn refuse(&self, waiting: &WaitingTasks, why: PoolError) {
        self.counters.ended.fetch_add(1, Ordering::Relaxed);
        self.sink.ended(waiting.ticket, End::Failed(why));
    }

    /// Ends all that waits.
    pub(super) fn fail_waiting(&self, error: &SearchError) {
        while let Ok(Some(waiting)) = self.inbox.try_pop() {
            self.refuse(&waiting, error.clone().into());
        }
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// The nodes that a task may answer with, where it can be begun.
    fn admit(&self, waiting: &WaitingTasks) -> Result<Option<Arc<AllowSet>>, PoolError> {
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
                self.resolve(filter, waiting.deadline)
            }
            Task::State(state) => {
                let filter = SearchState::filter_of(state).map_err(SearchError::State)?;
                self.resolve(filter, waiting.deadline)
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
    fn resolve(
        &self,
        filter: &[u8],
        until: Option<Instant>,
    ) -> Result<Option<Arc<AllowSet>>, PoolError> {
        if filter.is_empty() {
            return Ok(None);
        }
        let refused = |why: &str| PoolError::Refused(why.to_owned());
        if filter.len() > FILTER_MAX {
            return Err(refused("the filter is longer than 65536 bytes"));
        }
        let filters = self.filters.as_ref();
        let filters = filters.ok_or_else(|| refused("this server has no columns to filter by"))?;
        filters.resolve(filter, until).map(Some).map_err(|why| match why {
            Unresolved::Refused(why) => PoolError::Refused(why),
            Unresolved::Late => PoolError::Deadline,
        })
    }
}

impl Feed for RingWorker {
    fn draw(&mut self, idle: bool) -> Drawn {
        if !self.batch.admits(idle) {
            return Drawn::Later;
        }
        loop {
            let drawn = if idle { self.inbox.wait() } else { self.inbox.try_pop() };
            match drawn {
                Ok(Some(waiting)) => {
                    // From here on it ends with whatever ends the thread.
                    self.drawn = Some((waiting, None));
                    let (waiting, _) = self.drawn.as_ref().expect("it was just drawn");
                    match self.admit(waiting) {
                        Ok(allow) => {
                            self.batch.took();
                            self.drawn.as_mut().expect("it was just drawn").1 = allow;
                            return Drawn::Search;
                        }
                        Err(why) => self.refuse_drawn(why),
                    }
                }
                Ok(None) => {
                    self.batch.found_none();
                    return Drawn::Later;
                }
                Err(inbox::Closed) => return Drawn::Over,
            }
        }
    }

    fn begin(
        &mut self,
        state: &mut SearchState,
        view: &GraphView<'_>,
    ) -> (usize, Result<(), SearchError>) {
        state.slim();
        let (waiting, allow) = self.drawn.take().expect("a search was drawn");
        let WaitingTasks { ticket, task, .. } = waiting;
        let number = self.number(ticket);
        let mut begin = |query: &[u8], params: &SearchParams, allow| {
            self.counters.begun.fetch_add(1, Ordering::Relaxed);
            let begun = state.begin(view, query, params, allow);
            begun.map_err(SearchError::from)
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
                begun.map_err(SearchError::from)
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

    fn has_more(&self) -> bool {
        self.batch.is_open() && self.inbox.has_more()
    }

    fn pauses(&mut self) -> bool {
        !self.batch.is_open() || self.inbox.pause(self.number)
    }

    fn resumes(&mut self) {
        self.inbox.resume(self.number);
    }

    fn ended(&mut self, number: usize, end: FeedOutcome<'_>) {
        let end = match end {
            FeedOutcome::Found(hits, stats, k) => {
                End::Found(hits[..hits.len().min(k)].to_vec(), stats)
            }
            FeedOutcome::Expanded(expansion, stats) => End::Expanded(expansion, stats),
            FeedOutcome::Elsewhere(page, state, view) => {
                let mut bytes = self.spare.pop().unwrap_or_default();
                state.export(view, &mut bytes);
                self.counters.leaves(bytes.len());
                let partition = self.index.partition_of(page) as u32;
                End::Elsewhere { partition, state: bytes, stats: state.stats() }
            }
            FeedOutcome::Failed(why) => End::Failed(why.into()),
        };
        self.tell(number, end);
    }
}

impl Index {
    /// Whether a query can be asked of this index.
    fn check_one(&self, query: &[u8], params: &SearchParams) -> Result<(), PoolError> {
        self.check_vector_bytes(query)?;
        params.validate().map_err(QueryError::from)?;
        if params.reserve > 0 && self.view().owned.is_some() {
            let why =
                "a search that may be asked for more than k does not go from server to server";
            return Err(PoolError::Refused(why.to_owned()));
        }
        Ok(())
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
