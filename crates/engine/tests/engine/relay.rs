//! An index whose partitions are opened apart, and searches that go from one to the other.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pipeann_engine::build::{BuildOptions, PartitionBy};
use pipeann_engine::filter::AllowSet;
use pipeann_engine::index::{Index, OpenError, OpenOptions, Resident};
use pipeann_engine::memory::Accountant;
use pipeann_engine::pool::{
    End, FILTER_MAX, LocalCluster, LocalError, Pool, PoolError, PoolOptions, ResolveFilter, Sink,
    Task, Travel, Travelled, Unresolved,
};
use pipeann_engine::search::{Hit, Policy, PortableError, SearchError, SearchParams, SearchStats};
use pipeann_engine::types::{Metric, NodeId, PageId, RowId, VectorType};

use crate::data::{Vectors, build_in, clustered, open, open_options, options, truth};

type Outcome = Result<(Vec<Hit>, SearchStats), PoolError>;

/// Pools of one process, one for each partition; a search that leaves one is handed to the next.
struct Cluster {
    pools: Vec<OnceLock<Pool>>,
    found: Sender<(u64, Outcome)>,
    moves: AtomicUsize,
}

struct Member(Arc<Cluster>);

impl Sink for Member {
    fn ended(&self, ticket: u64, end: End) {
        let Self(cluster) = self;
        match end {
            End::Found(hits, stats) => drop(cluster.found.send((ticket, Ok((hits, stats))))),
            End::Expanded(..) => unreachable!("none is asked for"),
            End::Failed(why) => drop(cluster.found.send((ticket, Err(why)))),
            End::Elsewhere { partition, state, .. } => {
                cluster.moves.fetch_add(1, Ordering::Relaxed);
                let pool = cluster.pools[partition as usize].get().unwrap();
                pool.submit(ticket, Task::State(state), None).unwrap();
            }
        }
    }
}

type Found = Receiver<(u64, Outcome)>;

fn own(partitions: &[u32]) -> OpenOptions {
    OpenOptions { own: Some(partitions.into()), ..open_options() }
}

fn cluster(dir: &Path, partitions: usize) -> (Arc<Cluster>, Found) {
    let (found, receiver) = channel();
    let pools = (0..partitions).map(|_| OnceLock::new()).collect();
    let cluster = Arc::new(Cluster { pools, found, moves: AtomicUsize::new(0) });
    let sizes = PoolOptions { threads: 1, in_flight: 4, waiting: 1000, ..Default::default() };
    for number in 0..partitions {
        let index = Arc::new(Index::open(dir, &own(&[number as u32])).unwrap());
        let pool = Pool::start(index, &sizes, Arc::new(Member(Arc::clone(&cluster)))).unwrap();
        assert!(cluster.pools[number].set(pool).is_ok());
    }
    (cluster, receiver)
}

fn built(rows: usize, partitions: usize) -> (tempfile::TempDir, Vectors) {
    let dir = tempfile::tempdir().unwrap();
    let base = clustered(rows, 24, VectorType::U8, 1);
    // Cut at random, nearly every read is elsewhere.
    let partition_by = PartitionBy::Random;
    let options = BuildOptions { partitions, partition_by, ..options(Metric::L2) };
    build_in(&dir.path().join("i"), &base, &options);
    (dir, base)
}

fn params(policy: Policy) -> SearchParams {
    SearchParams { k: 10, list: 60, policy, ..Default::default() }
}

#[test]
fn servers_with_a_part_each_answer_as_one_with_all() {
    let (dir, base) = built(6000, 4);
    let dir = dir.path().join("i");
    let whole = open(&dir);
    let queries = clustered(100, 24, VectorType::U8, 2);
    let truth = truth(&base, &queries, Metric::L2, 10);
    let (cluster, found) = cluster(&dir, 4);
    for (policy, is_equal) in [
        (Policy::relay(1, 1), true),
        (Policy::baton(1), true),
        (Policy::relay(2, 8), false),
        (Policy::baton(64), false),
    ] {
        let params = params(policy);
        for i in 0..100 {
            let query = queries.set().row(i);
            let pool = cluster.pools[i % 4].get().unwrap();
            pool.submit(i as u64, Task::Query(query.to_vec(), params.clone().into()), None)
                .unwrap();
        }
        let mut recalled = 0;
        for _ in 0..100 {
            let (i, answer) = found.recv_timeout(Duration::from_secs(60)).unwrap();
            let (hits, stats) = answer.unwrap();
            let expected = whole.search(queries.set().row(i as usize), &params, None).unwrap();
            if is_equal {
                assert_eq!(hits, expected.hits);
                assert_eq!(stats.reads, expected.stats.reads);
                assert_eq!(stats.bytes_read, expected.stats.bytes_read);
            }
            recalled += hits.iter().filter(|h| truth[i as usize].contains(&h.row.0)).count();
        }
        assert!(recalled >= 950, "{recalled} of 1000 with {:?}", params.policy);
    }
    assert!(cluster.moves.load(Ordering::Relaxed) > 400);
    let counts: Vec<_> = cluster.pools.iter().map(|pool| pool.get().unwrap().counts()).collect();
    assert_eq!(counts.iter().map(|c| c.begun).sum::<u64>(), 400);
    assert_eq!(counts.iter().map(|c| c.ended).sum::<u64>(), 400);
    assert_eq!(
        counts.iter().map(|c| c.left).sum::<u64>(),
        counts.iter().map(|c| c.came).sum::<u64>()
    );
}

#[test]
fn only_the_files_of_own_partitions_have_to_be_there() {
    let (dir, base) = built(3000, 3);
    let dir = dir.path().join("i");
    let whole = open(&dir);
    for entry in std::fs::read_dir(dir.join("part-0001")).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_str().unwrap().starts_with("codes") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert!(matches!(Index::open(&dir, &open_options()), Err(OpenError::File { .. })));
    let some = Index::open(&dir, &own(&[2, 0])).unwrap();
    assert_eq!(some.partitions(), 3);
    assert_eq!([0, 1, 2, 3].map(|p| some.reads_partition(p)), [true, false, true, false]);
    let first = whole.manifest().partitions[1].first_page;
    assert_eq!([0, first - 1, first].map(|page| some.partition_of(PageId(page))), [0, 0, 1]);
    // What needs the others says so, and names a page.
    let params = params(Policy::relay(1, 1));
    let ends = (0..50).map(|row| some.search(base.set().row(row * 60), &params, None));
    let (found, elsewhere): (Vec<_>, Vec<_>) = ends.partition(Result::is_ok);
    assert!(!elsewhere.is_empty());
    for error in elsewhere {
        assert!(error.unwrap_err().to_string().contains("is held by another server"));
    }
    assert!(found.len() < 50);
    let report = some.verify(&mut |_| {}).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    let other = whole.manifest().partitions[1].pages;
    assert_eq!(report.pages, u64::from(whole.pages() - other));
    let unknown = Index::open(&dir, &own(&[0, 3])).err().unwrap();
    assert!(unknown.to_string().contains("no partition 3: it has 3"), "{unknown}");
}

#[test]
fn memory_for_pages_is_for_those_read_here() {
    let (dir, _) = built(4000, 4);
    let dir = dir.path().join("i");
    let all = OpenOptions { resident: Resident::All, ..open_options() };
    let whole = Index::open(&dir, &all).unwrap();
    let part = Index::open(&dir, &OpenOptions { own: Some([1].into()), ..all }).unwrap();
    assert_eq!(part.resident_pages(), whole.manifest().partitions[1].pages);
    let limit = part.bytes_for_all_pages();
    assert!(limit < whole.bytes_for_all_pages());
    let accountant = Accountant::new(Some(limit));
    let resident = Resident::Remaining;
    let limited = OpenOptions { accountant, resident, ..own(&[1]) };
    let part = Index::open(&dir, &limited).unwrap();
    assert!(part.wait_warm(Duration::from_secs(60)));
    assert_eq!(part.resident_pages(), whole.manifest().partitions[1].pages);
    // Where not all of them fit, some stay, wherever between two pages the limit lies.
    let half = (part.floor().total() + limit) / 2;
    for limit in (half..half + part.layout().page_bytes() as u64).step_by(61) {
        let accountant = Accountant::new(Some(limit));
        let options = OpenOptions { accountant: Arc::clone(&accountant), resident, ..own(&[1]) };
        let some = Index::open(&dir, &options).unwrap();
        let room = some.page_stats().room;
        assert_eq!(room, some.pages_under(limit));
        assert!(room > 0 && room < some.pages(), "{room} under {limit}");
        assert!(accountant.held_bytes() <= limit);
    }
}

/// Collects ends.
struct Ends(Sender<(u64, End)>);

impl Sink for Ends {
    fn ended(&self, ticket: u64, end: End) {
        drop(self.0.send((ticket, end)));
    }
}

#[test]
fn whatever_is_handed_to_a_pool_ends_once_and_says_why() {
    let (dir, base) = built(2000, 2);
    let dir = dir.path().join("i");
    let (ends, ended) = channel();
    let index = Arc::new(Index::open(&dir, &own(&[0])).unwrap());
    let sizes = PoolOptions { threads: 2, in_flight: 2, waiting: 8, ..Default::default() };
    let pool = Pool::start(index, &sizes, Arc::new(Ends(ends))).unwrap();
    let query = || base.set().row(0).to_vec();
    let asked = |policy| Task::Query(query(), params(policy).into());
    let next = || {
        let (ticket, end) = ended.recv_timeout(Duration::from_secs(60)).unwrap();
        (ticket, format!("{end:?}"), end)
    };
    pool.submit(1, Task::Query(vec![0; 3], params(Policy::relay(1, 1)).into()), None).unwrap();
    assert!(next().1.contains("Dimension"));
    let bad = SearchParams { k: 0, ..params(Policy::relay(1, 1)) };
    pool.submit(2, Task::Query(query(), bad.into()), None).unwrap();
    assert!(next().1.contains("Range"));
    pool.submit(3, asked(Policy::relay(1, 1)), Some(Instant::now())).unwrap();
    assert!(matches!(next(), (3, _, End::Failed(PoolError::Deadline))));
    pool.submit(4, Task::State(vec![7, 0, 1]), None).unwrap();
    let malformed = PortableError::Malformed("truncated");
    let (ticket, told, end) = next();
    assert_eq!(ticket, 4);
    let End::Failed(PoolError::Search(SearchError::State(why))) = end else { panic!("{told}") };
    assert_eq!(why, malformed);
    // More than may wait is given back.
    let mut taken = 0;
    for ticket in 10..1010 {
        match pool.submit(ticket, asked(Policy::relay(2, 8)), None) {
            Ok(()) => taken += 1,
            Err(full) => assert!(matches!(full.0, Task::Query(..))),
        }
        assert!(pool.waiting() <= 8);
    }
    assert!(taken >= 8);
    drop(pool);
    let tickets: HashMap<u64, usize> = ended.iter().fold(HashMap::new(), |mut map, (ticket, _)| {
        *map.entry(ticket).or_default() += 1;
        map
    });
    assert_eq!(tickets.len(), taken);
    assert!(tickets.values().all(|times| *times == 1));
}

#[test]
fn servers_of_one_process_count_what_a_cluster_would_do() {
    let (dir, _) = built(5000, 6);
    let dir = dir.path().join("i");
    let queries = clustered(40, 24, VectorType::U8, 2);
    let params = params(Policy::relay(1, 1));
    let whole = open(&dir);
    for servers in [1, 3, 6] {
        let mut cluster = LocalCluster::open(&dir, &open_options(), (servers, 40), None).unwrap();
        let asked = (0..40).map(|i| (queries.set().row(i), None));
        let answers = cluster.search(asked, &params).unwrap();
        let travelled = |of: fn(&Travel) -> u64| answers.iter().map(|a| of(&a.travel)).sum::<u64>();
        let (moves, to_entry) = (travelled(|t| t.moves), travelled(|t| t.to_entry));
        for (i, answer) in answers.iter().enumerate() {
            let expected = whole.search(queries.set().row(i), &params, None).unwrap();
            assert_eq!(answer.hits, expected.hits);
            assert_eq!(answer.travel.moves, answer.stats.moves);
        }
        // Each page is counted where it was read.
        let pages = cluster.pages();
        let read = answers.iter().map(|a| a.stats.reads + a.stats.resident_pages).sum::<u64>();
        assert_eq!((pages.len(), pages.iter().sum::<u64>()), (servers, read));
        assert!(pages.iter().all(|pages| *pages > 0), "{pages:?}");
        if servers == 1 {
            assert_eq!((moves, travelled(|t| t.bytes)), (0, 0));
        } else {
            assert!(moves > to_entry && to_entry > 0 && to_entry <= 40, "{moves}, {to_entry}");
            assert!(travelled(|t| t.bytes) > 100 * moves);
        }
    }
    let refused = LocalCluster::open(&dir, &open_options(), (7, 1), None).err().unwrap();
    assert!(refused.to_string().contains("7 servers cannot share 6 partitions"), "{refused}");
}

#[test]
fn a_search_is_handed_to_the_owner_of_its_nearest_entry_or_begins_where_it_came() {
    let (dir, _) = built(5000, 6);
    let dir = dir.path().join("i");
    let queries = clustered(60, 24, VectorType::U8, 2);
    let mut cluster = LocalCluster::open(&dir, &open_options(), (6, 60), None).unwrap();
    let mut travelled = |policy: Policy| {
        let asked = (0..60).map(|i| (queries.set().row(i), None));
        cluster.search(asked, &params(policy)).unwrap()
    };
    let to_entry = |answers: &[Travelled]| answers.iter().map(|a| a.travel.to_entry).sum::<u64>();
    for policy in [Policy::relay(1, 1), Policy::baton(1)] {
        let anywhere = travelled(Policy { home: false, ..policy.clone() });
        for (a, b) in travelled(policy).iter().zip(&anywhere) {
            assert_eq!((&a.hits, a.travel), (&b.hits, b.travel), "its first read is there anyway");
        }
    }
    for policy in [Policy::relay(2, 8), Policy::baton(64)] {
        let anywhere = to_entry(&travelled(Policy { home: false, ..policy.clone() }));
        let answers = travelled(policy);
        assert!(answers.iter().all(|answer| answer.travel.to_entry <= 1), "handed over once");
        // Of ten entries one is nearly always at the server that a query came to, and the nearest at
        // one of six.
        let handed = to_entry(&answers);
        assert!(handed > 40 && handed > anywhere + 15, "{handed} and {anywhere} of 60");
    }
}

/// A filter that nobody has the time for.
const LONG: u8 = 255;

/// Reads filters of one byte: rows that it divides.
struct Divides {
    here: Vec<(RowId, NodeId)>,
    index: Arc<Index>,
}

impl ResolveFilter for Divides {
    fn resolve(&self, filter: &[u8], _: Option<Instant>) -> Result<Arc<AllowSet>, Unresolved> {
        let refused = |why: String| Err(Unresolved::Refused(why));
        let &[by] = filter else { return refused(format!("{filter:?} is no divisor")) };
        if by == 0 {
            return refused("zero is no divisor".to_owned());
        }
        // As one that takes as long as it is given.
        if by == LONG {
            return Err(Unresolved::Late);
        }
        let pass = self.here.iter().filter(|(row, _)| row.0.is_multiple_of(by.into()));
        let pass: Vec<_> = pass.map(|(_, node)| *node).collect();
        Ok(Arc::new(self.index.allow_here(pass.len() as u64, pass)))
    }
}

fn divides(index: &Arc<Index>) -> Result<Arc<dyn ResolveFilter>, LocalError> {
    Ok(Arc::new(Divides { here: index.rows_here()?, index: Arc::clone(index) }))
}

#[test]
fn filters_travel_and_give_what_one_server_gives() {
    let (dir, _) = built(4000, 6);
    let dir = dir.path().join("i");
    let queries = clustered(40, 24, VectorType::U8, 2);
    let params = params(Policy::relay(1, 1));
    let whole = open(&dir);
    for servers in [1, 3, 6] {
        let open = LocalCluster::open(&dir, &open_options(), (servers, 40), Some(&divides));
        let mut cluster = open.unwrap();
        for by in [2_u8, 30, 250] {
            let asked = |filter| (0..40).map(move |i| (i, filter));
            let filter = [by];
            let searches = asked(Some(&filter[..])).map(|(i, f)| (queries.set().row(i), f));
            let answers = cluster.search(searches, &params).unwrap();
            let rows: Vec<_> = (0..4000).filter(|r| r % u64::from(by) == 0).map(RowId).collect();
            let allow = Arc::new(whole.allow_rows(&rows).unwrap());
            for (i, answer) in answers.iter().enumerate() {
                let query = queries.set().row(i);
                let expected = whole.search(query, &params, Some(Arc::clone(&allow))).unwrap();
                assert_eq!(answer.hits, expected.hits, "{by}, {servers} servers");
                assert_eq!(answer.stats.reads, expected.stats.reads);
                assert_eq!(answer.travel.moves, answer.stats.moves);
                assert!(answer.travel.moves + 1 >= servers as u64, "each is asked for its own");
            }
        }
        // What is wrong with a filter is told, wherever it is read.
        let wrong = [(queries.set().row(0), Some(&[0][..]))];
        let refused = cluster.search(wrong.into_iter(), &params).unwrap_err();
        assert_eq!(refused.to_string(), "zero is no divisor");
        let late = [(queries.set().row(0), Some(&[LONG][..]))];
        let refused = cluster.search(late.into_iter(), &params).unwrap_err();
        assert!(matches!(refused, PoolError::Deadline), "{refused}");
        let long = vec![1; FILTER_MAX + 1];
        let long = [(queries.set().row(0), Some(&long[..]))];
        assert!(cluster.search(long.into_iter(), &params).is_err());
    }
    let mut without = LocalCluster::open(&dir, &open_options(), (2, 1), None).unwrap();
    let asked = [(queries.set().row(0), Some(&[2][..]))];
    let refused = without.search(asked.into_iter(), &params).unwrap_err();
    assert_eq!(refused.to_string(), "this server has no columns to filter by");
}

#[test]
fn a_cursor_over_a_part_says_which_page_it_needs_from_another_server() {
    let (dir, _) = built(4000, 4);
    let own = Some([1].as_slice().into());
    let part = Index::open(&dir.path().join("i"), &OpenOptions { own, ..open_options() }).unwrap();
    let queries = clustered(1, 24, VectorType::U8, 2);
    let cursor = part.cursor(queries.set().row(0), &params(Policy::relay(1, 1)), None);
    let refused = cursor.err().expect("most pages are elsewhere");
    assert!(refused.to_string().contains("is held by another server"), "{refused}");
}

#[test]
fn a_search_that_may_be_asked_for_more_is_refused_where_it_would_travel() {
    let (dir, _) = built(2000, 4);
    let dir = dir.path().join("i");
    let queries = clustered(1, 24, VectorType::U8, 2);
    let params = SearchParams { reserve: 10, ..params(Policy::relay(1, 1)) };
    let mut cluster = LocalCluster::open(&dir, &open_options(), (2, 1), None).unwrap();
    let asked = [(queries.set().row(0), None)];
    let refused = cluster.search(asked.into_iter(), &params).unwrap_err();
    assert!(refused.to_string().contains("asked for more than k"), "{refused}");
}
