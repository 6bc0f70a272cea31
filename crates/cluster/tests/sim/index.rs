//! Indexes in parts that servers share, and what one server with all of one answers.

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
use pipeann_engine::distance::QueryDistance;
use pipeann_engine::format::constants::MANIFEST_NAME;
use pipeann_engine::format::{FileEntry, FileKind, Manifest, RelativePath, encode_map, seal_body};
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::io::Backend;
use pipeann_engine::io::memory::Memory;
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
pub(crate) const SEARCHES: [Asked; 4] = [
    ONE,
    Asked { baton: true, ..ONE },
    Asked {
        k: 40,
        list: 60,
        within: DistanceRange { from: Bound::Unbounded, to: Bound::Excluded(9000.0) },
        ..ONE
    },
    Asked { width: 2, ahead: 8, list: 12, ..ONE },
];

/// The one of them that those who keep their lists can have: a node at a time is the search of one server.
pub(crate) const BEST_FIRST: usize = 1;

/// The one that looks ahead, and so reads otherwise where less is at hand.
pub(crate) const AHEAD: usize = 3;

/// Indexes that are opened once for all clusters.
pub(crate) struct Indexes {
    _dir: tempfile::TempDir,
    backend: Arc<dyn Backend>,
    /// What servers have, and what those have that are behind: other rows.
    both: [Whole; 2],
    queries: Vec<u8>,
    expected: RefCell<Answers>,
    desks: RefCell<Desks>,
}

/// An index whole, and what is known of its rows.
struct Whole {
    path: PathBuf,
    index: Index,
    rows: Vec<u8>,
    /// The partition of each row.
    partition_of: Vec<u32>,
}

/// By whether the index is stale, query, search, and partitions that are missing.
type Answers = HashMap<(bool, usize, usize, Vec<u32>), Vec<u8>>;

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
    fn open(path: &Path, backend: &Arc<dyn Backend>, own: &[u32]) -> Self {
        let index = Index::open(path, &options(backend, Some(own))).unwrap();
        index.wait_resident().unwrap();
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

/// Pages come from memory, in the order in which they were asked for, so that a seed shows the same again.
fn options(backend: &Arc<dyn Backend>, own: Option<&[u32]>) -> OpenOptions {
    OpenOptions {
        backend: Some(Arc::clone(backend)),
        direct: false,
        accountant: Accountant::new(None),
        own: own.map(Into::into),
        ..OpenOptions::default()
    }
}

fn build_in(path: &Path, rows: &[u8]) {
    let set = VectorSet::new(rows, DIM, VectorType::U8).unwrap();
    let mut options = BuildOptions {
        partitions: PARTITIONS as usize,
        // Many hops.
        partition_by: PartitionBy::Random,
        ..BuildOptions::new(Metric::L2)
    };
    options.graph.degree = 16;
    options.graph.list = 30;
    // The same graph each time, as above.
    options.graph.threads = 1;
    build(set, path, &options, &Silent, &AtomicBool::new(false)).unwrap();
}

/// Rows that are deleted and still part of the graph.
fn is_deleted(row: u64) -> bool {
    row % 9 == 4
}

/// Deletes rows. Live changes need an index of one part, so what they would leave is written here.
fn delete_in(path: &Path, backend: &Arc<dyn Backend>) {
    let file = path.join(MANIFEST_NAME);
    let mut manifest = Manifest::decode(&std::fs::read(&file).unwrap()).unwrap();
    let (identity, generation) = (manifest.identity(), manifest.generation);
    for (number, partition) in (0..).zip(&mut manifest.partitions) {
        let index = Index::open(path, &options(backend, Some(&[number]))).unwrap();
        let rows = index.rows_here().unwrap();
        let deleted = rows.into_iter().filter(|(row, _)| is_deleted(row.0));
        let mut nodes: Vec<u32> = deleted.map(|(_, node)| node.0).collect();
        nodes.sort_unstable();
        manifest.rows -= nodes.len() as u64;
        let body = encode_map(&nodes);
        let sealed = seal_body(FileKind::Tombstones, &identity, generation, &body);
        let name = RelativePath::new("tombstones-1").unwrap();
        std::fs::write(path.join(partition.dir.join(&name)), &sealed).unwrap();
        partition.tombstones = Some(FileEntry { path: name, bytes: sealed.len() as u64 });
    }
    std::fs::write(file, manifest.encode().unwrap()).unwrap();
}

impl Whole {
    fn make(path: PathBuf, backend: &Arc<dyn Backend>, seed: u64) -> Self {
        let rows = vectors(ROWS, seed);
        build_in(&path, &rows);
        delete_in(&path, backend);
        let index = Index::open(&path, &options(backend, None)).unwrap();
        index.wait_resident().unwrap();
        let mut partition_of = vec![0; ROWS];
        for partition in 0..PARTITIONS {
            let part = Index::open(&path, &options(backend, Some(&[partition]))).unwrap();
            for (row, _) in part.rows_here().unwrap() {
                partition_of[row.0 as usize] = partition;
            }
        }
        Self { path, index, rows, partition_of }
    }

    fn row(&self, row: u64) -> &[u8] {
        &self.rows[row as usize * DIM..][..DIM]
    }

    /// Whether a row may be found where partitions are missing.
    fn has(&self, row: u64, missing: &[u32]) -> bool {
        !is_deleted(row) && !missing.contains(&self.partition_of[row as usize])
    }
}

impl Indexes {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let backend: Arc<dyn Backend> = Arc::new(Memory::new());
        let both = [("index", 1), ("stale", 3)]
            .map(|(name, seed)| Whole::make(dir.path().join(name), &backend, seed));
        let queries = vectors(QUERIES, 2);
        let (expected, desks) = (RefCell::default(), RefCell::default());
        Self { _dir: dir, backend, both, queries, expected, desks }
    }

    fn whole(&self, stale: bool) -> &Whole {
        &self.both[usize::from(stale)]
    }

    pub(crate) fn identity(&self, stale: bool) -> Identity {
        let origin = self.whole(stale).index.origin();
        Identity { index: origin.uuid, generation: origin.generation, codebook: origin.codebook }
    }

    pub(crate) fn query(&self, number: usize) -> &[u8] {
        &self.queries[number * DIM..][..DIM]
    }

    /// The hits of a query without some partitions, as an answer packs them.
    fn expected(&self, stale: bool, (query, search): (usize, usize), missing: &[u32]) -> Vec<u8> {
        let mut known = self.expected.borrow_mut();
        let hits = known.entry((stale, query, search, missing.to_vec())).or_insert_with(|| {
            let index = &self.whole(stale).index;
            let without = index.pages_of(missing).expect("partitions of the index");
            let params = SearchParams { without, ..SEARCHES[search].params() };
            let found = index.search(self.query(query), &params, None).unwrap();
            Hits::pack(found.hits.iter().map(|hit| Hit { distance: hit.distance, row: hit.row.0 }))
        });
        hits.clone()
    }

    fn distance(&self, query: usize) -> QueryDistance<'_> {
        QueryDistance::new(Metric::L2, VectorType::U8, self.query(query))
    }

    /// Whether an answer holds rows that are there and nothing else, and is what one server gives. Of a
    /// search that looks ahead it has to be rows as they are, nearest first.
    pub(crate) fn is_right(
        &self,
        stale: bool,
        asked: (usize, usize),
        missing: &[u32],
        hits: &[u8],
    ) -> bool {
        let (whole, distance) = (self.whole(stale), self.distance(asked.0));
        let found: Vec<Hit> = Hits::of(hits).expect("whole rows").iter().collect();
        let is_there = |hit: &Hit| {
            whole.has(hit.row, missing) && distance.distance(whole.row(hit.row)) == hit.distance
        };
        if !found.iter().all(is_there) {
            return false;
        }
        if asked.1 != AHEAD {
            return hits == self.expected(stale, asked, missing);
        }
        let rows: BTreeSet<u64> = found.iter().map(|hit| hit.row).collect();
        let is_sorted = found.is_sorted_by(|a, b| a.distance <= b.distance);
        is_sorted && rows.len() == found.len() && rows.len() <= SEARCHES[AHEAD].k as usize
    }

    /// How many rows of an answer, and how many of one server's, are among the nearest that are there.
    pub(crate) fn nearest(
        &self,
        stale: bool,
        asked: (usize, usize),
        missing: &[u32],
        hits: &[u8],
    ) -> (u64, u64) {
        let (whole, distance) = (self.whole(stale), self.distance(asked.0));
        let there = (0..ROWS as u64).filter(|row| whole.has(*row, missing));
        let mut distances: Vec<f32> = there.map(|row| distance.distance(whole.row(row))).collect();
        distances.sort_unstable_by(f32::total_cmp);
        let last = distances[SEARCHES[asked.1].k as usize - 1];
        let near = |hits: &[u8]| {
            let hits = Hits::of(hits).expect("whole rows");
            hits.iter().filter(|hit| hit.distance <= last).count() as u64
        };
        (near(hits), near(&self.expected(stale, asked, missing)))
    }

    pub(crate) fn desk(&self, own: &[u32], stale: bool) -> Rc<Desk> {
        let mut desks = self.desks.borrow_mut();
        let path = &self.whole(stale).path;
        let desk = desks.entry((stale, own.to_vec()));
        Rc::clone(desk.or_insert_with(|| Rc::new(Desk::open(path, &self.backend, own))))
    }
}
