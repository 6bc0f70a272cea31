//! What is counted, and its text for Prometheus.
//!
//! Counting a search takes one look at a table and some additions. Series have the names that a
//! collection has when they are asked for; those of a dropped collection end there. Calls that name
//! no collection that there is are counted without one, so that nobody can make up series. There may
//! be many collections that nobody searches: what counts searches is made by the first one.

mod families;
mod process;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use pipeann_db::catalog::CollectionId;
use pipeann_db::collection::Stages;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

pub use families::{MetricFamily, MetricValue};
pub(crate) use text::{CollectionGauges, DeviceGauges, Gauges};

/// The stages of a search, as they are named.
const STAGES: [&str; 4] = ["queue", "search", "rows", "encoding"];

/// How often calls ended with a code, by name and code; 0 is success.
type EndCounts = BTreeMap<(&'static str, i32), u64>;

/// The same, counted by many. Few are of one collection, so they stand in a list.
#[derive(Debug, Default)]
struct Calls(Mutex<Vec<((&'static str, i32), u64)>>);

impl Calls {
    fn count(&self, call: &'static str, code: i32) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match ended.iter_mut().find(|(of, _)| *of == (call, code)) {
            Some((_, count)) => *count += 1,
            None => ended.push(((call, code), 1)),
        }
    }

    fn all(&self) -> EndCounts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

/// What is counted of one collection.
#[derive(Debug, Default)]
pub(crate) struct OfCollection {
    calls: Calls,
    searches: OnceLock<Box<Searches>>,
}

/// What is counted of searches.
#[derive(Debug)]
struct Searches {
    queries: Counter,
    hits: Counter,
    filtered: Counter,
    joined: Histogram,
    stages: [Histogram; STAGES.len()],
}

/// A search that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Searched {
    pub(crate) queries: usize,
    pub(crate) hits: usize,
    pub(crate) filtered: bool,
    pub(crate) stages: Stages,
    pub(crate) encoding: Duration,
}

impl Searches {
    fn new() -> Self {
        // From 50 us to 6.6 s.
        let times = || Histogram::new(exponential_buckets(50e-6, 2.0, 18));
        Self {
            queries: Counter::default(),
            hits: Counter::default(),
            filtered: Counter::default(),
            joined: Histogram::new(exponential_buckets(1.0, 2.0, 9)),
            stages: std::array::from_fn(|_| times()),
        }
    }

    fn count(&self, search: &Searched) {
        let count = |n: usize| n as u64;
        self.queries.inc_by(count(search.queries));
        self.hits.inc_by(count(search.hits));
        self.filtered.inc_by(u64::from(search.filtered));
        self.joined.observe(search.stages.joined as f64);
        let Stages { queue, search: found, rows, .. } = search.stages;
        for (stage, took) in self.stages.iter().zip([queue, found, rows, search.encoding]) {
            stage.observe(took.as_secs_f64());
        }
    }
}

impl OfCollection {
    /// Counts a search that was answered.
    pub(crate) fn searched(&self, search: &Searched) {
        self.searches.get_or_init(|| Box::new(Searches::new())).count(search);
    }
}

/// All that is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    collections: RwLock<HashMap<CollectionId, Arc<OfCollection>>>,
    /// Calls that are about no collection.
    elsewhere: Calls,
}

impl Metrics {
    pub(crate) fn of(&self, collection: CollectionId) -> Arc<OfCollection> {
        let known = self.collections.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&collection) {
            return Arc::clone(found);
        }
        drop(known);
        let mut all = self.collections.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(collection).or_default())
    }

    /// Counts a call that ended with this code, of a collection if it is about one.
    pub(crate) fn called(&self, call: &'static str, of: Option<CollectionId>, code: i32) {
        match of {
            Some(collection) => self.of(collection).calls.count(call, code),
            None => self.elsewhere.count(call, code),
        }
    }
}
