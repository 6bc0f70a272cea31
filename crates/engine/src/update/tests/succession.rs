//! One generation after the other: what they share, and the memory that it takes.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::{
    Rows, assert_sound, built, consolidate, delete_all, insert_all, live, open_options, params,
    rows_of,
};
use crate::index::{OpenOptions, PageStats, Resident};
use crate::memory::{Accountant, Pool, Reservation};
use crate::search::{Policy, SearchParams};
use crate::types::RowId;
use crate::update::{DiskFiles, Files, LiveIndex, LiveOptions, NewFile, UpdateError};

/// The file system, noting how much memory is held while files are removed: both generations are
/// there then.
#[derive(Default)]
struct Watching {
    accountant: OnceLock<Arc<Accountant>>,
    most_codes: AtomicU64,
}

impl Files for Watching {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        DiskFiles.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        DiskFiles.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        DiskFiles.sync_dir(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if let Some(accountant) = self.accountant.get() {
            self.most_codes.fetch_max(accountant.pool_bytes(Pool::Codes), Ordering::Relaxed);
        }
        DiskFiles.remove(path)
    }
}

/// The file system, beside somebody who takes all memory that is free while files are written.
#[derive(Default)]
struct Besieged {
    accountant: OnceLock<Arc<Accountant>>,
    taken: Mutex<Vec<Reservation>>,
}

impl Files for Besieged {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        if let Some(accountant) = self.accountant.get() {
            let all = accountant.reserve_free(Pool::Postings, accountant.free_bytes()).unwrap();
            self.taken.lock().unwrap().push(all);
        }
        DiskFiles.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        DiskFiles.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        DiskFiles.sync_dir(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        DiskFiles.remove(path)
    }
}

fn assert_found(index: &LiveIndex, rows: &Rows, some: std::ops::Range<usize>) {
    for row in some.step_by(5) {
        let hits = index.search(rows.row(row), &params(60), None).unwrap().hits;
        assert!(rows_of(&hits).contains(&(row as u64)), "row {row}");
    }
}

#[test]
fn codes_are_in_memory_once_while_two_generations_are_open() {
    let rows = Rows::clustered(700, 16, 1);
    let place = built(&rows, 600);
    let files = Arc::new(Watching::default());
    let open = open_options();
    let accountant = Arc::clone(&open.accountant);
    let options = LiveOptions { open, files: files.clone(), ..LiveOptions::default() };
    let index = LiveIndex::open(&place.path, options).unwrap();
    files.accountant.set(Arc::clone(&accountant)).unwrap();
    let before = accountant.pool_bytes(Pool::Codes);
    for (applied, from) in [(1, 600), (2, 650)] {
        insert_all(&index, &rows, from..from + 50);
        index.checkpoint(applied).unwrap();
    }
    let after = accountant.pool_bytes(Pool::Codes);
    assert!(files.most_codes.load(Ordering::Relaxed) <= after, "{before} to {after}");
    assert!(after < before + before / 2, "{before} to {after}");
    assert_found(&index, &rows, 0..700);
    drop(index);
    assert_eq!(accountant.held_bytes(), 0);
    assert_found(&live(&place.path), &rows, 0..700);
}

/// A limit, with pages in what is left of it, from the floor upwards.
#[test]
fn rows_come_under_any_limit_that_the_index_opens_with() {
    let rows = Rows::clustered(1200, 16, 2);
    let place = built(&rows, 600);
    let mut opened = 0;
    for limit in (4 << 20..24 << 20).step_by(1 << 20) {
        let copy = place.copy();
        let accountant = Accountant::new(Some(limit));
        let open = OpenOptions {
            accountant: Arc::clone(&accountant),
            resident: Resident::Remaining,
            ..open_options()
        };
        let options = LiveOptions { open, ..LiveOptions::default() };
        let Ok(index) = LiveIndex::open(&copy.path, options) else { continue };
        opened += 1;
        for row in 600..1200 {
            loop {
                match index.insert(RowId(row as u64), rows.row(row)) {
                    Ok(_) => break,
                    Err(UpdateError::Memory(e)) => {
                        assert!(index.linked() > 0, "at {limit} no row finds room: {e}");
                        index.checkpoint(row as u64).unwrap();
                    }
                    Err(e) => panic!("at {limit}: {e}"),
                }
            }
            assert!(accountant.held_bytes() <= limit);
        }
        index.checkpoint(1200).unwrap();
        assert_found(&index, &rows, 0..1200);
    }
    assert!(opened > 2, "some limits are above the floor");
}

/// The table of codes has room for so many rows; then the next generation has one of its own, for
/// which there is room until it is opened.
#[test]
fn a_generation_with_codes_of_its_own_has_its_room_before_it_is_written() {
    let rows = Rows::clustered(1_400, 16, 2);
    let place = built(&rows, 600);
    let files = Arc::new(Besieged::default());
    let accountant = Accountant::new(Some(64 << 20));
    let open = OpenOptions { accountant: Arc::clone(&accountant), ..open_options() };
    let options =
        LiveOptions { open, files: files.clone(), fresh_rows: Some(150), ..LiveOptions::default() };
    let index = LiveIndex::open(&place.path, options).unwrap();
    files.accountant.set(accountant).unwrap();
    let codes = index.current().index.codes().rows();
    for from in (600..1_400).step_by(100) {
        insert_all(&index, &rows, from..from + 100);
        index.checkpoint(from as u64).unwrap();
        files.taken.lock().unwrap().clear();
    }
    assert!(index.current().index.codes().rows() > codes, "the first table was used up");
    assert_found(&index, &rows, 0..1_400);
}

#[test]
fn resident_pages_follow_their_generation() {
    let rows = Rows::clustered(700, 16, 3);
    let place = built(&rows, 600);
    let open = OpenOptions { resident: Resident::All, ..open_options() };
    let accountant = Arc::clone(&open.accountant);
    let options = LiveOptions { open, ..LiveOptions::default() };
    let index = LiveIndex::open(&place.path, options).unwrap();
    let before = accountant.pool_bytes(Pool::PageCache);
    insert_all(&index, &rows, 600..700);
    index.checkpoint(1).unwrap();
    let answer = index.search(rows.row(650), &params(60), None).unwrap();
    assert_eq!((answer.stats.reads, rows_of(&answer.hits)[0]), (0, 650));
    assert!(answer.stats.resident_pages > 0);
    let after = accountant.pool_bytes(Pool::PageCache);
    assert!(after < before + before / 2, "{before} to {after}");
    assert_found(&index, &rows, 0..700);
}

/// Whether the pages are there that fit. Where some do not, one of so few frames may be left to a
/// page that a search will read.
fn is_full(held: PageStats) -> bool {
    held.resident + u32::from(held.room < held.pages) >= held.room.min(held.pages)
}

/// Waits until no page is being read ahead of searches.
fn wait_warm(index: &LiveIndex) {
    while index.page_stats().warming {
        std::thread::yield_now();
    }
}

/// Pages that a checkpoint wrote anew come into memory without a search, as those of before did.
#[test]
fn pages_come_ahead_of_searches_in_every_generation() {
    let rows = Rows::clustered(1200, 16, 3);
    let place = built(&rows, 1000);
    let accountant = Accountant::new(Some(256 << 20));
    let open = OpenOptions {
        accountant: Arc::clone(&accountant),
        resident: Resident::Remaining,
        ..open_options()
    };
    let options = LiveOptions { open, ..LiveOptions::default() };
    let index = LiveIndex::open(&place.path, options).unwrap();
    for (generation, from) in [1000, 1100].into_iter().enumerate() {
        wait_warm(&index);
        let held = index.page_stats();
        assert!(is_full(held), "{held:?} of {generation}");
        let warmed = held.warmed;
        insert_all(&index, &rows, from..from + 100);
        index.checkpoint(from as u64).unwrap();
        wait_warm(&index);
        assert!(index.page_stats().warmed > warmed, "changed pages were read again");
    }
    let held = index.page_stats();
    assert!(is_full(held), "{held:?}");
    assert_found(&index, &rows, 0..1200);
    drop(index);
    assert_eq!(accountant.held_bytes(), 0);
}

/// Where all pages are in memory the graph is walked by exact distances; what was changed since
/// they were written is seen there as it is by a search that asks for its pages.
#[test]
fn searches_in_memory_see_what_was_changed() {
    let rows = Rows::clustered(900, 16, 6);
    let place = built(&rows, 500);
    let open = OpenOptions { resident: Resident::All, ..open_options() };
    let index = LiveIndex::open(&place.path, LiveOptions { open, ..LiveOptions::default() });
    let index = index.unwrap();
    let by_pages = Policy { in_memory: false, ..Policy::auto() };
    let by_pages = SearchParams { policy: by_pages, ..params(100) };
    let same = |live: std::ops::Range<usize>| {
        for row in (0..900).step_by(7) {
            let [walked, asked] = [&params(100), &by_pages]
                .map(|params| index.search(rows.row(row), params, None).unwrap());
            assert_eq!((walked.stats.reads, walked.stats.code_distances), (0, 0));
            assert!(asked.stats.code_distances > 0);
            let [walked, asked] = [walked, asked].map(|answer| rows_of(&answer.hits[..10]));
            assert!(walked.iter().all(|row| live.contains(&(*row as usize))), "{walked:?}");
            let common = walked.iter().filter(|row| asked.contains(row)).count();
            assert!(common >= 9, "query {row}: {walked:?} and {asked:?}");
            assert!(!live.contains(&row) || walked[0] == row as u64, "row {row} finds itself");
        }
    };
    insert_all(&index, &rows, 500..900);
    same(0..900);
    delete_all(&index, 0..200);
    same(200..900);
    consolidate(&index);
    same(200..900);
    index.checkpoint(1).unwrap();
    same(200..900);
}

/// Slots that a consolidation has freed are used again, and searches of the generation before
/// see no foreign code under an id that they know.
#[test]
fn slots_are_free_again_after_the_searches_of_their_generation() {
    let rows = Rows::clustered(900, 16, 4);
    let place = built(&rows, 500);
    let index = live(&place.path);
    for round in 0..4 {
        let from = round * 100;
        insert_all(&index, &rows, 500 + from..600 + from);
        delete_all(&index, from..from + 100);
        consolidate(&index);
        index.checkpoint(round as u64 + 1).unwrap();
        assert_eq!(index.tombstones(), 0);
        assert_sound(&place.path);
        assert_found(&index, &rows, from + 100..600 + from);
    }
    let slots = index.current().index.manifest().slots();
    assert!(slots < 900, "{slots} slots for 500 rows");
}

/// Pages are rewritten by checkpoints while a consolidation goes through them.
#[test]
fn consolidation_and_checkpoints_take_turns() {
    let rows = Rows::clustered(1500, 16, 5);
    let place = built(&rows, 1000);
    let index = live(&place.path);
    delete_all(&index, 0..300);
    std::thread::scope(|s| {
        s.spawn(|| consolidate(&index));
        for from in (1000..1500).step_by(50) {
            insert_all(&index, &rows, from..from + 50);
            index.checkpoint(from as u64).unwrap();
        }
    });
    consolidate(&index);
    index.checkpoint(1500).unwrap();
    assert_eq!((index.tombstones(), index.rows()), (0, 1200));
    assert_sound(&place.path);
    assert_found(&index, &rows, 300..1500);
    drop(index);
    assert_found(&live(&place.path), &rows, 300..1500);
}

/// One thread and several make the same rows of the same changes.
#[test]
fn a_checkpoint_on_one_thread_is_as_good() {
    let rows = Rows::clustered(1200, 128, 6);
    let place = built(&rows, 1000);
    for threads in [Some(1), Some(3), None] {
        let copy = place.copy();
        let options = LiveOptions { open: open_options(), threads, ..LiveOptions::default() };
        let index = LiveIndex::open(&copy.path, options).unwrap();
        insert_all(&index, &rows, 1000..1200);
        delete_all(&index, 0..200);
        consolidate(&index);
        let report = index.checkpoint(1).unwrap();
        assert!(report.changed_pages > 64, "more than one run: {report:?}");
        assert_sound(&copy.path);
        assert_found(&index, &rows, 200..1200);
    }
}
