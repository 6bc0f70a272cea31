//! The engine's side: queries and states of messages become tasks of a pool, and back.
//!
//! What a search is asked for, and what it cost, go over the wire as the bytes of [`Asked`] and
//! [`Spent`]; a state does as the engine has it.

mod centroids;
mod codec;
mod counted;
mod gather;
mod scoring;

pub use centroids::{Centroids, CentroidsError};
pub use codec::{Asked, ReadPolicy, Spent};
pub use counted::{Answered, Counted};
pub use gather::gather;
pub use pipeann_engine::pool::StateSizes;
pub use scoring::coding_errors;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pipeann_engine::index::{Index, QueryError};
use pipeann_engine::pool::{
    End, FILTER_MAX, Pool, PoolError, PoolOptions, ResolveFilter, Sink, Task,
};
use pipeann_engine::search::{Frontier, FrontierError, PageSource as _, SearchError, SearchParams};
use pipeann_engine::types::NodeId;

use self::codec::UNREADABLE;
use crate::relay::{Done, Ticket, Walked, Walker, Work};
use crate::wire::{FailureCode, Hit, Hits, Mode};

/// What takes the results of a walker, once its server stands.
pub type Results<W> = Arc<OnceLock<Done<W>>>;

/// A walker over the partitions of an index that are read here.
pub struct IndexWalker {
    pool: Pool,
    /// Over an index of the rows of this server alone, for searches that ask every server.
    separate: Option<Pool>,
    longest: Duration,
}

struct Ends(Results<IndexWalker>);

impl Sink for Ends {
    fn ended(&self, ticket: u64, end: End) {
        if let Some(done) = self.0.get() {
            done.walked(walked(Ticket(ticket), end));
        }
    }
}

/// What a pool over an index is to do for a piece of work; `None` where nobody waits for that any more.
pub fn task(work: Work, index: &Index) -> Option<(Ticket, Task)> {
    let ty = index.layout().vector_type();
    match work {
        Work::Begin { ticket, mode, missing, parameters, vector, .. } => {
            let task = match (Asked::decode(&parameters), mode) {
                (None, _) => Task::Refused(UNREADABLE.to_owned()),
                (Some((asked, _)), _) if asked.ty != ty => Task::Refused(asked.other_type(ty)),
                (Some(_), Mode::Replicas | Mode::Region | Mode::Scatter) if !missing.is_empty() => {
                    Task::Refused(format!("the mode {mode:?} leaves no partition out"))
                }
                (
                    Some((asked, filter)),
                    Mode::Relay | Mode::Baton | Mode::Replicas | Mode::Region | Mode::Scatter,
                ) => {
                    let Some(without) = index.pages_of(&missing) else {
                        let why = format!("the index has {} partitions", index.partitions());
                        return Some((ticket, Task::Refused(why)));
                    };
                    let mut params = Box::new(SearchParams { without, ..asked.params() });
                    params.policy.home = goes_home(mode, &asked, index);
                    if filter.is_empty() {
                        Task::Query(vector, params)
                    } else {
                        Task::Filtered(vector, params, filter.to_vec())
                    }
                }
                (Some(_), _) => Task::Refused(format!("the mode {mode:?} is not served")),
            };
            Some((ticket, task))
        }
        Work::Wake { ticket, state, .. } => Some((ticket, Task::State(state))),
        Work::Score { ticket, nodes, bound, most, packed, parameters, vector, .. } => {
            let nodes = nodes.into_iter().map(NodeId).collect();
            let most = most as usize;
            let frontier = Frontier { query: vector, nodes, bound, most, packed };
            Some((ticket, scoring::task(frontier, &parameters, ty)))
        }
        // It ends by itself in some milliseconds, and its end is dropped.
        Work::Cancel { .. } => None,
    }
}

/// Whether a query is handed to the owner of its nearest entry before it reads. Who reads all pages can
/// begin anywhere, unless queries are asked by region.
fn goes_home(mode: Mode, asked: &Asked, index: &Index) -> bool {
    match mode {
        Mode::Region => true,
        Mode::Relay | Mode::Baton => !asked.round_robin && index.view().owned.is_some(),
        Mode::Scatter | Mode::Orchestrate | Mode::Replicas => false,
    }
}

/// What became of a pool's task.
pub fn walked(ticket: Ticket, end: End) -> Walked {
    match end {
        End::Found(hits, stats) => {
            let hits = hits.iter().map(|hit| Hit { distance: hit.distance, row: hit.row.0 });
            Walked::Done { ticket, hits: Hits::pack(hits), stats: Spent::of(&stats).encode() }
        }
        End::Expanded(expansion, stats) => {
            Walked::Scored { ticket, scores: scoring::scores(&expansion, &stats) }
        }
        End::Elsewhere { partition, state, .. } => Walked::Leaves { ticket, partition, state },
        End::Failed(why) => failed(ticket, &why),
    }
}

fn failed(ticket: Ticket, why: &PoolError) -> Walked {
    let code = match why {
        PoolError::Query(QueryError::Search(_)) => FailureCode::Internal,
        PoolError::Frontier(FrontierError::NotHere(_)) => FailureCode::NotOwner,
        PoolError::Frontier(_) => FailureCode::Refused,
        PoolError::Query(_) | PoolError::Refused(_) | PoolError::Search(SearchError::State(_)) => {
            FailureCode::Refused
        }
        PoolError::Search(_) => FailureCode::Internal,
        PoolError::Deadline => FailureCode::Deadline,
        PoolError::Closing => FailureCode::Leaving,
    };
    // What names files of this machine stays here; its log has it.
    let words = match why {
        PoolError::Search(SearchError::Unreadable(_) | SearchError::Queue(_)) => {
            "a page could not be read; the server's log has the place".to_owned()
        }
        other => other.to_string(),
    };
    Walked::Failed { ticket, code, words }
}

/// What a walker has beside its index.
pub struct WalkerOptions {
    /// An index of the rows of this server alone, for searches that ask every server; as many threads
    /// again.
    pub separate: Option<Arc<Index>>,
    /// What reads filters of that.
    pub separate_filters: Option<Arc<dyn ResolveFilter>>,
    /// What reads filters.
    pub filters: Option<Arc<dyn ResolveFilter>>,
    /// How large its pools are.
    pub pool: PoolOptions,
    /// Longest that something stays here.
    pub longest: Duration,
}

/// What the pools of a walker have done, and what waits for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueFigures {
    /// Work that waits for a thread.
    pub waiting: usize,
    /// The most that has waited for one pool at once.
    pub most_waiting: usize,
    /// How long the states were that left.
    pub state_bytes: StateSizes,
}

impl IndexWalker {
    /// Threads over an index.
    ///
    /// # Errors
    /// As [`Pool::start`].
    pub fn start(
        index: Arc<Index>,
        options: WalkerOptions,
        results: Results<Self>,
    ) -> Result<Self, QueryError> {
        Self::telling(index, options, Arc::new(Ends(results)))
    }

    /// As [`start`](Self::start), telling the ends of tasks to another.
    fn telling(
        index: Arc<Index>,
        options: WalkerOptions,
        ends: Arc<dyn Sink>,
    ) -> Result<Self, QueryError> {
        let WalkerOptions { separate, separate_filters, filters, pool: sizes, longest } = options;
        let separate = separate
            .map(|separate| {
                Pool::start_filtering(separate, &sizes, Arc::clone(&ends), separate_filters)
            })
            .transpose()?;
        let pool = Pool::start_filtering(index, &sizes, ends, filters)?;
        Ok(Self { pool, separate, longest })
    }

    /// The index.
    pub fn index(&self) -> &Arc<Index> {
        self.pool.index()
    }

    /// What its pools have done, and what waits for them.
    pub fn figures(&self) -> QueueFigures {
        let pools = [Some(&self.pool), self.separate.as_ref()].into_iter().flatten();
        pools.fold(QueueFigures::default(), |sum, pool| QueueFigures {
            waiting: sum.waiting + pool.waiting(),
            most_waiting: sum.most_waiting.max(pool.most_waiting()),
            state_bytes: sum.state_bytes.and(pool.counts().state_bytes),
        })
    }
}

impl Walker for IndexWalker {
    fn refuses(&self, parameters: &[u8], vector: &[u8]) -> Option<String> {
        if parameters.len() > Asked::BYTES_MAX {
            return Some(format!("the filter is longer than {FILTER_MAX} bytes"));
        }
        let layout = self.index().layout();
        if vector.len() == layout.vector_bytes() {
            return None;
        }
        let ty = layout.vector_type();
        Some(match Asked::decode(parameters) {
            None => UNREADABLE.to_owned(),
            Some((asked, _)) if asked.ty != ty => asked.other_type(ty),
            Some(_) => {
                let (expected, found) = (layout.dim(), ty.dim_of(vector.len()));
                QueryError::Dimension { expected, found }.to_string()
            }
        })
    }

    fn starts(&self) -> Vec<u32> {
        self.index().partition_starts()
    }

    fn submit(&self, work: Work) -> bool {
        let scattered = matches!(work, Work::Begin { mode: Mode::Scatter, .. });
        let left = match &work {
            Work::Begin { left_us, .. }
            | Work::Wake { left_us, .. }
            | Work::Score { left_us, .. } => Duration::from_micros(*left_us).min(self.longest),
            Work::Cancel { .. } => Duration::ZERO,
        };
        let Some((ticket, mut task)) = task(work, self.index()) else { return true };
        let pool = match (&self.separate, scattered) {
            (Some(separate), true) => separate,
            (None, true) => {
                let why = "this server has no index of its own rows alone";
                task = Task::Refused(why.to_owned());
                &self.pool
            }
            (_, false) => &self.pool,
        };
        let deadline = Instant::now().checked_add(left);
        let taken = pool.submit(ticket.0, task, deadline).is_ok();
        if !taken {
            tracing::error!("a search finds no room in its pool");
        }
        taken
    }
}

#[cfg(test)]
mod tests;
