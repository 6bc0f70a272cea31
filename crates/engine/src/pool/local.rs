//! Servers of one process: each a pool over partitions of its own, without a network between them.
//!
//! For counting what a cluster would do, which is exact here: hops, reads and bytes do not depend
//! on how messages travel. Times of it say nothing about a cluster.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use super::{End, Pool, PoolError, PoolOptions, ResolveFilter, Sink, StateSizes, Task};
use crate::index::{Index, OpenError, OpenOptions, QueryError};
use crate::search::{Hit, SearchParams, SearchStats};

/// What a search cost that went from server to server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Travel {
    /// Times that it was handed from one server to another.
    pub moves: u64,
    /// Of those, before anything was read: to where its entry is.
    pub to_entry: u64,
    /// Bytes of its states, handed over.
    pub bytes: u64,
}

/// The answer to a query.
#[derive(Debug)]
pub struct Travelled {
    /// Hits, nearest first.
    pub hits: Vec<Hit>,
    /// What the search cost, on all servers together.
    pub stats: SearchStats,
    /// What going from one to the other cost.
    pub travel: Travel,
}

type LocalOutcome = (u64, Result<(Vec<Hit>, SearchStats), PoolError>);

struct LocalShared {
    /// The server of each partition.
    owner: Vec<usize>,
    pools: Vec<OnceLock<Pool>>,
    /// Pages that each server has read.
    pages: Vec<AtomicU64>,
    /// Of each query: moves, those to its entry, bytes of states, and pages so far.
    travel: Vec<[AtomicU64; 4]>,
    found: Sender<LocalOutcome>,
}

/// What reads filters at the server of an index.
pub type Filters<'f> = dyn Fn(&Arc<Index>) -> Result<Arc<dyn ResolveFilter>, LocalError> + 'f;

/// A query: its vector, and its filter where it has one.
pub type QueryAndFilter<'q> = (&'q [u8], Option<&'q [u8]>);

/// See the module's description.
pub struct LocalCluster {
    shared: Arc<LocalShared>,
    found: Receiver<LocalOutcome>,
}

/// One of them, by its number.
struct LocalMember(Arc<LocalShared>, usize);

impl LocalShared {
    /// A search has come to so many pages in all: those since it was seen last are of this server.
    fn count_pages(&self, server: usize, ticket: u64, stats: &SearchStats) {
        let pages = stats.reads + stats.resident_pages;
        let before = self.travel[ticket as usize][3].swap(pages, Ordering::Relaxed);
        self.pages[server].fetch_add(pages.saturating_sub(before), Ordering::Relaxed);
    }
}

impl Sink for LocalMember {
    fn ended(&self, ticket: u64, end: End) {
        let Self(shared, server) = self;
        let ended = match end {
            End::Found(hits, stats) => {
                shared.count_pages(*server, ticket, &stats);
                Ok((hits, stats))
            }
            End::Expanded(..) => unreachable!("nothing is expanded for others here"),
            End::Failed(why) => Err(why),
            End::Elsewhere { partition, state, stats } => {
                // Before it goes on, as the next one counts from there.
                shared.count_pages(*server, ticket, &stats);
                let add = |count: usize, n: usize| {
                    shared.travel[ticket as usize][count].fetch_add(n as u64, Ordering::Relaxed);
                };
                add(0, 1);
                add(1, usize::from(stats.reads + stats.resident_pages == 0));
                add(2, state.len());
                let pool = shared.pools[shared.owner[partition as usize]].get();
                match pool.expect("all stand").submit(ticket, Task::State(state), None) {
                    Ok(()) => return,
                    Err(_) => Err(PoolError::Closing),
                }
            }
        };
        // Nobody may be waiting any more.
        let _ = shared.found.send((ticket, ended));
    }
}

impl LocalCluster {
    /// So many servers of one thread each, which share the partitions of the index in `dir` in
    /// order, for at most `queries` at a time.
    ///
    /// # Errors
    /// As [`Index::open`] and [`Pool::start`].
    pub fn open(
        dir: &Path,
        options: &OpenOptions,
        (servers, queries): (usize, usize),
        filters: Option<&Filters<'_>>,
    ) -> Result<Self, LocalError> {
        let partitions = Index::open(dir, options)?.partitions();
        if servers == 0 || servers > partitions {
            return Err(LocalError::Servers { servers, partitions });
        }
        let owner: Vec<usize> = (0..partitions).map(|p| p * servers / partitions).collect();
        let (sender, found) = channel();
        let shared = Arc::new(LocalShared {
            owner: owner.clone(),
            pools: (0..servers).map(|_| OnceLock::new()).collect(),
            pages: (0..servers).map(|_| AtomicU64::new(0)).collect(),
            travel: (0..queries).map(|_| Default::default()).collect(),
            found: sender,
        });
        let sizes =
            PoolOptions { threads: 1, in_flight: 8, waiting: queries, ..Default::default() };
        for server in 0..servers {
            let own = (0..partitions as u32).filter(|p| owner[*p as usize] == server).collect();
            let index = Index::open(dir, &OpenOptions { own: Some(own), ..options.clone() })?;
            index.wait_resident()?;
            let sink = Arc::new(LocalMember(Arc::clone(&shared), server));
            let index = Arc::new(index);
            let filters = filters.map(|filters| filters(&index)).transpose()?;
            let pool = Pool::start_filtering(index, &sizes, sink, filters)?;
            assert!(shared.pools[server].set(pool).is_ok(), "each server once");
        }
        Ok(Self { shared, found })
    }

    /// Searches queries, one after the other handed to each server in turn; answers in their order.
    ///
    /// # Errors
    /// The first search that failed.
    ///
    /// # Panics
    /// With more queries than the cluster was opened for.
    pub fn search<'q>(
        &mut self,
        queries: impl ExactSizeIterator<Item = QueryAndFilter<'q>>,
        params: &SearchParams,
    ) -> Result<Vec<Travelled>, PoolError> {
        let (shared, asked) = (&self.shared, queries.len());
        for counts in &shared.travel[..asked] {
            counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
        for (i, (query, filter)) in queries.enumerate() {
            let pool = shared.pools[i % shared.pools.len()].get().expect("all stand");
            let (query, params) = (query.to_vec(), Box::new(params.clone()));
            let task = match filter {
                Some(filter) => Task::Filtered(query, params, filter.to_vec()),
                None => Task::Query(query, params),
            };
            pool.submit(i as u64, task, None).map_err(|_| PoolError::Closing)?;
        }
        let mut answers: Vec<Option<Travelled>> = (0..asked).map(|_| None).collect();
        let mut failed = None;
        for _ in 0..asked {
            let (ticket, found) = self.found.recv().expect("each query ends once");
            match found {
                Ok((hits, stats)) => {
                    let [moves, to_entry, bytes, _] = &shared.travel[ticket as usize];
                    let [moves, to_entry, bytes] =
                        [moves, to_entry, bytes].map(|count| count.load(Ordering::Relaxed));
                    let travel = Travel { moves, to_entry, bytes };
                    answers[ticket as usize] = Some(Travelled { hits, stats, travel });
                }
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        match failed {
            None => Ok(answers.into_iter().flatten().collect()),
            Some(why) => Err(why),
        }
    }

    /// How long the states were that servers have handed over, since they stand.
    pub fn state_bytes(&self) -> StateSizes {
        let pools = self.shared.pools.iter().filter_map(OnceLock::get);
        pools.map(|pool| pool.counts().state_bytes).fold(StateSizes::default(), StateSizes::and)
    }

    /// Pages that each server has read for searches, or found in memory, since it stands.
    pub fn pages(&self) -> Vec<u64> {
        self.shared.pages.iter().map(|pages| pages.load(Ordering::Relaxed)).collect()
    }
}

/// Why there is no such cluster.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// Servers without a partition.
    #[error("{servers} servers cannot share {partitions} partitions: each needs one at least")]
    Servers {
        /// Servers asked for.
        servers: usize,
        /// Partitions of the index.
        partitions: usize,
    },
    /// The index cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Filters cannot be read, for this reason.
    #[error("{0}")]
    Filters(String),
    /// Its codes cannot be read, or threads cannot search.
    #[error(transparent)]
    Query(#[from] QueryError),
}
