//! Pages that come into memory ahead of searches: all that fit do, behind searches, and nothing
//! waits for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pipeann_engine::index::{Index, OpenOptions, Resident};
use pipeann_engine::memory::Accountant;
use pipeann_engine::search::{Policy, SearchParams};
use pipeann_engine::types::{Metric, VectorType};

use crate::data::{Vectors, build_in, clustered, open_options, options};

const ROWS: usize = 2000;
/// Longer than any warming here takes; it ends a test that would hang.
const AT_MOST: Duration = Duration::from_secs(60);

/// Ends those who look at it.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Long vectors, so that there are many pages.
fn built() -> (tempfile::TempDir, PathBuf, Vectors) {
    let base = clustered(ROWS, 128, VectorType::F32, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    (dir, path, base)
}

fn opened(path: &Path, accountant: &Arc<Accountant>) -> Index {
    let accountant = Arc::clone(accountant);
    let resident = Resident::Remaining;
    Index::open(path, &OpenOptions { accountant, resident, ..open_options() }).unwrap()
}

/// The floor, and what is needed with all pages.
fn limits(path: &Path) -> (u64, u64) {
    let index = Index::open(path, &open_options()).unwrap();
    (index.floor().total(), index.bytes_for_all_pages())
}

fn params() -> SearchParams {
    SearchParams { k: 10, list: 40, ..Default::default() }
}

#[test]
fn where_all_pages_fit_all_come_without_a_search() {
    let (_dir, path, base) = built();
    let (_, all) = limits(&path);
    let index = opened(&path, &Accountant::new(Some(all)));
    assert!(index.wait_warm(AT_MOST));
    let held = index.page_stats();
    assert_eq!((held.resident, held.unreadable, held.warming), (index.pages(), 0, false));
    assert_eq!((held.warmed, held.read, held.displaced), (u64::from(index.pages()), 0, 0));
    let params = SearchParams { policy: Policy::auto(), ..params() };
    let answer = index.search(base.set().row(7), &params, None).unwrap();
    assert_eq!((answer.hits[0].row.0, answer.stats.reads), (7, 0));
}

#[test]
fn where_some_fit_memory_is_full_and_the_limit_holds() {
    let (_dir, path, base) = built();
    let (floor, all) = limits(&path);
    let limit = floor + (all - floor) / 2;
    let accountant = Accountant::new(Some(limit));
    let index = opened(&path, &accountant);
    assert!(index.wait_warm(AT_MOST));
    let held = index.page_stats();
    assert_eq!((held.resident, held.warmed), (held.room, u64::from(held.room)));
    assert!(held.room > index.pages() / 4 && accountant.held_bytes() <= limit);
    // What nobody used makes room for what searches read.
    for row in (0..ROWS).step_by(20) {
        index.search(base.set().row(row), &params(), None).unwrap();
    }
    assert!(index.page_stats().displaced > 0);
}

#[test]
fn it_can_be_switched_off() {
    let (_dir, path, _) = built();
    let (_, all) = limits(&path);
    let open = OpenOptions {
        accountant: Accountant::new(Some(all)),
        resident: Resident::Remaining,
        warm: false,
        ..open_options()
    };
    let index = Index::open(&path, &open).unwrap();
    index.set_memory_limit(Some(all + 1)).unwrap();
    assert!(!index.page_stats().warming && index.wait_warm(AT_MOST));
    assert_eq!((index.resident_pages(), index.page_stats().warmed), (0, 0));
}

#[test]
fn pages_that_were_used_most_come_first() {
    let (_dir, path, base) = built();
    let (_, all) = limits(&path);
    let accountant = Accountant::new(Some(all));
    let index = opened(&path, &accountant);
    assert!(index.wait_warm(AT_MOST));
    let by_pages =
        SearchParams { policy: Policy { in_memory: false, ..Policy::pipe() }, ..params() };
    let search = || index.search(base.set().row(1234), &by_pages, None).unwrap();
    let uses: Vec<u64> = (0..40).map(|_| search().stats.resident_pages).collect();
    let needed = index.set_memory_limit(Some(1)).unwrap_err().needed_bytes();
    index.set_memory_limit(Some(needed)).unwrap();
    assert_eq!(index.resident_pages(), 0);
    let page_bytes = index.layout().page_bytes() as u64;
    let few = uses.iter().max().unwrap() + 8;
    assert!(few < u64::from(index.pages()) / 2, "{few} of {} pages say nothing", index.pages());
    index.set_memory_limit(Some(needed + few * page_bytes)).unwrap();
    assert!(index.wait_warm(AT_MOST));
    assert_eq!(u64::from(index.resident_pages()), few);
    assert_eq!(search().stats.reads, 0);
}

#[test]
fn a_limit_falls_and_rises_while_pages_come_and_searches_run() {
    let (_dir, path, base) = built();
    let (floor, all) = limits(&path);
    let accountant = Accountant::new(Some(all));
    let index = opened(&path, &accountant);
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        for from in 0..2 {
            let (index, base, done) = (&index, &base, &done);
            s.spawn(move || {
                for row in (from..ROWS).cycle().step_by(7) {
                    let answer = index.search(base.set().row(row), &params(), None).unwrap();
                    assert_eq!(answer.hits[0].distance, 0.0, "row {row}");
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        // Also where something is not as it should be: the searches would go on for ever.
        let _ended = SetOnDrop(&done);
        let share = |nth: u64| floor + (all - floor) * nth / 10;
        for limit in [share(3), all, share(1), share(8)].repeat(8) {
            index.set_memory_limit(Some(limit)).unwrap();
            assert!(accountant.held_bytes() <= limit);
            let warmed = index.page_stats().warmed;
            while index.page_stats().warming && index.page_stats().warmed < warmed + 20 {
                std::thread::yield_now();
            }
            // Memory is divided anew behind searches, so that room may change between two looks.
            let before = index.page_stats().room;
            let resident = index.resident_pages();
            assert!(resident <= before.max(index.page_stats().room), "{resident} of {before}");
        }
    });
    index.set_memory_limit(Some(all)).unwrap();
    assert!(index.wait_warm(AT_MOST));
    assert_eq!(index.resident_pages(), index.pages());
}

#[test]
fn an_index_closes_while_pages_come() {
    let (_dir, path, _) = built();
    let (_, all) = limits(&path);
    let mut cut_short = 0;
    for nth in 0..20 {
        let accountant = Accountant::new(Some(all));
        let index = opened(&path, &accountant);
        while index.page_stats().warming && index.page_stats().warmed < nth * 20 {
            std::thread::yield_now();
        }
        cut_short += usize::from(index.page_stats().warming);
        drop(index);
        assert_eq!(accountant.held_bytes(), 0);
    }
    assert!(cut_short > 0, "some close before all pages are there");
}

/// A page of the first segment, in the middle of it, is not what was written.
fn damage(path: &Path) {
    let segment = files(path).into_iter().find(|f| f.to_string_lossy().contains("segment"));
    let segment = segment.unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xA5);
    fs::write(&segment, bytes).unwrap();
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_damaged_page_stays_on_disk_and_is_met_by_searches_as_before() {
    let (_dir, path, base) = built();
    let (_, all) = limits(&path);
    damage(&path);
    let index = opened(&path, &Accountant::new(Some(all)));
    assert!(index.wait_warm(AT_MOST));
    let held = index.page_stats();
    assert_eq!((held.unreadable, held.resident), (1, index.pages() - 1));
    let failures: Vec<String> = (0..ROWS)
        .filter_map(|row| index.search(base.set().row(row), &params(), None).err())
        .map(|error| error.to_string())
        .collect();
    assert!(!failures.is_empty() && failures.len() < ROWS / 2, "{} fail", failures.len());
    assert!(failures.iter().all(|why| why.contains("segment")), "{failures:?}");
    // It is tried again when a limit rises, and no more often.
    index.set_memory_limit(Some(all + 1)).unwrap();
    assert!(index.wait_warm(AT_MOST));
    assert_eq!(index.page_stats().unreadable, 1);
}
