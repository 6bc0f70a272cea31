//! An index in parts that servers share, and what one server with all of it answers.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use pipeann_cluster::relay::{Ticket, Walked, Work};
use pipeann_cluster::transport::tcp::Identity;
use pipeann_cluster::walker::{self, Asked};
use pipeann_cluster::wire::{Hit, Hits};
use pipeann_engine::build::{BuildOptions, PartitionBy, Silent, build};
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::memory::Accountant;
use pipeann_engine::pool::{End, Pool, PoolOptions, Sink};
use pipeann_engine::search::{DistanceRange, SearchParams};
use pipeann_engine::types::{Metric, VectorSet, VectorType};

const DIM: usize = 16;
const ROWS: usize = 1500;
pub(crate) const PARTITIONS: u32 = 5;
/// Different queries.
pub(crate) const QUERIES: usize = 40;

const ONE: Asked = Asked {
    k: 10,
    list: 30,
    width: 1,
    ahead: 1,
    baton: false,
    round_robin: false,
    ty: VectorType::U8,
    within: DistanceRange::ALL,
};
/// How queries are searched.
pub(crate) const SEARCHES: [Asked; 3] = [
    ONE,
    Asked { baton: true, ..ONE },
    Asked {
        k: 40,
        list: 60,
        within: DistanceRange { from: Bound::Unbounded, to: Bound::Excluded(9000.0) },
        ..ONE
    },
];

/// The one of them that those who keep their lists can have: a node at a time is the search of one server.
pub(crate) const BEST_FIRST: usize = 1;

/// Indexes that are opened once for all clusters.
pub(crate) struct Indexes {
    _dir: tempfile::TempDir,
    path: PathBuf,
    /// The same rows, built anew.
    stale: PathBuf,
    whole: Index,
    queries: Vec<u8>,
    expected: RefCell<Answers>,
    /// The partition of each row.
    partition_of: Vec<u32>,
    desks: RefCell<Desks>,
}

/// By query, search, and partitions that are missing.
type Answers = HashMap<(usize, usize, Vec<u32>), Vec<u8>>;

/// By whether the index is stale, and the partitions that are read.
type Desks = HashMap<(bool, Vec<u32>), Rc<Desk>>;

/// A pool that is waited for: one search after the other, as they are asked for.
pub(crate) struct Desk {
    pool: Pool,
    ends: Receiver<End>,
}

struct Ends(Mutex<Sender<End>>);

impl Sink for Ends {
    fn ended(&self, _ticket: u64, end: End) {
        self.0.lock().unwrap().send(end).expect("somebody waits for it");
    }
}

impl Desk {
    fn open(path: &Path, own: Vec<u32>) -> Self {
        let index = Index::open(path, &options(Some(own.into_iter().collect()))).unwrap();
        let (give, ends) = channel();
        let sizes = PoolOptions { threads: 1, in_flight: 1, waiting: 1, ..Default::default() };
        let pool = Pool::start(Arc::new(index), &sizes, Arc::new(Ends(Mutex::new(give)))).unwrap();
        Self { pool, ends }
    }

    /// The first node of each partition.
    pub(crate) fn starts(&self) -> Vec<u32> {
        self.pool.index().partition_starts()
    }

    /// Does a piece of work; `None` where nobody waits for it any more.
    pub(crate) fn walk(&self, work: Work) -> Option<(Ticket, Walked)> {
        let (ticket, task) = walker::task(work, self.pool.index())?;
        self.pool.submit(ticket.0, task, None).expect("nothing else waits");
        Some((ticket, walker::walked(ticket, self.ends.recv().expect("each task ends"))))
    }
}

fn vectors(rows: usize, seed: u64) -> Vec<u8> {
    let mut chance = pipeann_cluster::transport::sim::Chance(seed);
    let mut out = Vec::with_capacity(rows * DIM);
    for _ in 0..rows {
        let centre = chance.below(30);
        out.extend(
            (0..DIM as u64).map(|d| ((centre * 37 + d * 11) % 160 + chance.below(60)) as u8),
        );
    }
    out
}

fn options(own: Option<BTreeSet<u32>>) -> OpenOptions {
    OpenOptions {
        direct: false,
        accountant: Accountant::new(None),
        own: own.map(|own| own.into_iter().collect()),
        ..OpenOptions::default()
    }
}

fn build_in(path: &Path) {
    let bytes = vectors(ROWS, 1);
    let set = VectorSet::new(&bytes, DIM, VectorType::U8).unwrap();
    let mut options = BuildOptions {
        partitions: PARTITIONS as usize,
        // Many hops.
        partition_by: PartitionBy::Random,
        ..BuildOptions::new(Metric::L2)
    };
    options.graph.degree = 16;
    options.graph.list = 30;
    // The same graph each time, so that a seed shows the same again.
    options.graph.threads = 1;
    build(set, path, &options, &Silent, &AtomicBool::new(false)).unwrap();
}

impl Indexes {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (path, stale) = (dir.path().join("index"), dir.path().join("stale"));
        build_in(&path);
        build_in(&stale);
        let whole = Index::open(&path, &options(None)).unwrap();
        let queries = vectors(QUERIES, 2);
        let mut partition_of = vec![0; ROWS];
        for partition in 0..PARTITIONS {
            let index = Index::open(&path, &options(Some([partition].into()))).unwrap();
            for (row, _) in index.rows_here().unwrap() {
                partition_of[row.0 as usize] = partition;
            }
        }
        let (expected, desks) = (RefCell::default(), RefCell::default());
        Self { _dir: dir, path, stale, whole, queries, expected, partition_of, desks }
    }

    pub(crate) fn identity(&self, stale: bool) -> Identity {
        let origin = match stale {
            true => Index::open(&self.stale, &options(None)).unwrap().origin(),
            false => self.whole.origin(),
        };
        Identity { index: origin.uuid, generation: origin.generation, codebook: origin.codebook }
    }

    pub(crate) fn query(&self, number: usize) -> &[u8] {
        &self.queries[number * DIM..][..DIM]
    }

    /// The hits of a query without some partitions, as an answer packs them.
    pub(crate) fn expected(&self, query: usize, search: usize, missing: &[u32]) -> Vec<u8> {
        let mut known = self.expected.borrow_mut();
        let hits = known.entry((query, search, missing.to_vec())).or_insert_with(|| {
            let without = self.whole.pages_of(missing).expect("partitions of the index");
            let params = SearchParams { without, ..SEARCHES[search].params() };
            let found = self.whole.search(self.query(query), &params, None).unwrap();
            Hits::pack(found.hits.iter().map(|hit| Hit { distance: hit.distance, row: hit.row.0 }))
        });
        hits.clone()
    }

    /// Whether all rows found are of other partitions than these.
    pub(crate) fn spares(&self, hits: &[u8], missing: &[u32]) -> bool {
        let mut rows = Hits::of(hits).expect("whole rows").iter();
        rows.all(|hit| !missing.contains(&self.partition_of[hit.row as usize]))
    }

    pub(crate) fn desk(&self, own: &[u32], stale: bool) -> Rc<Desk> {
        let mut desks = self.desks.borrow_mut();
        let path = if stale { &self.stale } else { &self.path };
        let desk = desks.entry((stale, own.to_vec()));
        Rc::clone(desk.or_insert_with(|| Rc::new(Desk::open(path, own.to_vec()))))
    }
}
