//! The memory limit: a floor that is refused with the number needed, resident pages, and a limit
//! that changes while searches run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipeann_engine::index::{Index, OpenError, OpenOptions, Resident};
use pipeann_engine::memory::{Accountant, Pool};
use pipeann_engine::search::SearchParams;
use pipeann_engine::types::{Metric, VectorType};

use crate::data::{build_in, clustered, open_options, options};

#[test]
fn below_the_floor_opening_names_the_limit_that_would_do() {
    let base = clustered(2000, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    let low = Accountant::new(Some(100_000));
    let refused =
        match Index::open(&path, &OpenOptions { accountant: low.clone(), ..open_options() }) {
            Err(OpenError::Memory(e)) => e,
            Err(e) => panic!("{e}"),
            Ok(_) => panic!("opened below the floor"),
        };
    assert_eq!(low.held_bytes(), 0, "a refusal holds nothing");
    let enough = Accountant::new(Some(refused.needed_bytes()));
    let index = Index::open(&path, &OpenOptions { accountant: enough.clone(), ..open_options() });
    let index = index.unwrap();
    assert_eq!(enough.held_bytes(), index.floor().total());
    drop(index);
    assert_eq!(enough.held_bytes(), 0, "closing gives all memory back");
}

#[test]
fn an_index_opens_although_pages_of_another_hold_the_rest_of_the_limit() {
    let base = clustered(3000, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| dir.path().join(name));
    paths.iter().for_each(|path| build_in(path, &base, &options(Metric::L2)));
    let floor = Index::open(&paths[0], &open_options()).unwrap().floor().total();
    // What both need, with the tables of their pages, but no page.
    let limit = 2 * floor + 50_000;
    let accountant = Accountant::new(Some(limit));
    let resident = Resident::Remaining;
    let open = OpenOptions { accountant: accountant.clone(), resident, ..open_options() };
    let first = Index::open(&paths[0], &open).unwrap();
    let held = accountant.pool_bytes(Pool::PageCache);
    assert!(accountant.free_bytes() < floor && held > 0, "{held} bytes of pages");
    let second = Index::open(&paths[1], &open).unwrap();
    assert!(accountant.held_bytes() <= limit);
    for index in [&first, &second] {
        for row in (0..3000).step_by(50) {
            let answer = index.search(base.set().row(row), &SearchParams::default(), None).unwrap();
            assert_eq!(answer.hits[0].distance, 0.0, "row {row}");
        }
    }
}

#[test]
fn what_the_limit_leaves_holds_pages_and_saves_reads() {
    let base = clustered(3000, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    let floor = Index::open(&path, &open_options()).unwrap().floor().total();
    let params = SearchParams { k: 10, list: 40, ..Default::default() };
    let mut reads_before = u64::MAX;
    for extra in [0, 100_000, 10_000_000] {
        let accountant = Accountant::new(Some(floor + extra));
        let resident = Resident::Remaining;
        let accounts = accountant.clone();
        let open = OpenOptions { accountant: accounts, resident, warm: false, ..open_options() };
        let index = Index::open(&path, &open).unwrap();
        index.wait_resident().unwrap();
        let mut reads = 0;
        for pass in 0..2 {
            for row in (0..3000).step_by(3) {
                let answer = index.search(base.set().row(row), &params, None).unwrap();
                assert_eq!(answer.hits[0].distance, 0.0);
                reads += pass * answer.stats.reads;
            }
        }
        assert!(accountant.held_bytes() <= floor + extra);
        assert!(reads < reads_before, "{reads} reads with {extra} bytes to spare");
        reads_before = reads;
    }
    assert_eq!(reads_before, 0, "with room for every page nothing is read any more");
}

#[test]
fn an_index_wholly_in_memory_reads_nothing() {
    let base = clustered(2000, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    let options = OpenOptions { resident: Resident::All, ..open_options() };
    let index = Index::open(&path, &options).unwrap();
    assert_eq!(index.resident_pages(), index.pages());
    let answer = index.search(base.set().row(9), &SearchParams::default(), None).unwrap();
    assert_eq!((answer.stats.reads, answer.stats.bytes_read), (0, 0));
    assert!(answer.stats.resident_pages > 0);
    assert!(index.pools().any(|(pool, bytes)| pool == Pool::PageCache && bytes > 0));
}

/// An index under a limit, with its directory; only pages that searches read stay.
fn opened(limit: Option<u64>, resident: Resident) -> (Index, Arc<Accountant>, tempfile::TempDir) {
    let base = clustered(3000, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    let accountant = Accountant::new(limit);
    let accounts = accountant.clone();
    let open = OpenOptions { accountant: accounts, resident, warm: false, ..open_options() };
    let index = Index::open(&path, &open).unwrap();
    index.wait_resident().unwrap();
    (index, accountant, dir)
}

#[test]
fn a_limit_changes_while_searches_run_and_answers_stay_right() {
    let base = clustered(3000, 16, VectorType::U8, 1);
    let (index, accountant, _dir) = opened(None, Resident::All);
    let (floor, all) = (index.floor().total(), index.bytes_for_all_pages());
    let params = SearchParams { k: 10, list: 40, ..Default::default() };
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let searching: Vec<_> = (0..3)
            .map(|from| {
                let (index, base, params, done) = (&index, &base, &params, &done);
                s.spawn(move || {
                    let mut searched = 0;
                    for row in (from..3000).cycle().step_by(7) {
                        let answer = index.search(base.set().row(row), params, None).unwrap();
                        assert_eq!(answer.hits[0].distance, 0.0, "row {row}");
                        assert_eq!(answer.hits.len(), 10);
                        searched += 1;
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    searched
                })
            })
            .collect();
        let share = |nth: u64| floor + (all - floor) * nth / 10;
        for limit in [share(5), share(9), all, share(7), share(10), share(6)].repeat(4) {
            index.set_memory_limit(Some(limit)).unwrap();
            assert!(accountant.held_bytes() <= limit, "held when the call returns");
            assert_eq!(index.page_stats().room, index.pages_under(limit), "under {limit} bytes");
            let before = index.page_stats();
            while index.page_stats().from_memory + index.page_stats().read
                < before.from_memory + before.read + 1000
            {
                std::thread::yield_now();
            }
            assert!(index.resident_pages() <= index.page_stats().room);
        }
        done.store(true, Ordering::Relaxed);
        assert!(searching.into_iter().all(|s| s.join().unwrap() > 0));
    });
    index.set_memory_limit(Some(all)).unwrap();
    index.set_memory_limit(None).unwrap();
    assert_eq!(accountant.limit_bytes(), None);
    drop(index);
    assert_eq!(accountant.held_bytes(), 0);
}

#[test]
fn an_index_opened_without_a_limit_takes_one_later() {
    let (index, accountant, _dir) = opened(None, Resident::Remaining);
    assert_eq!((index.resident_pages(), index.page_stats().share_from_memory()), (0, None));
    let base = clustered(3000, 16, VectorType::U8, 1);
    index.set_memory_limit(Some(index.bytes_for_all_pages())).unwrap();
    let params = SearchParams { k: 10, list: 40, ..Default::default() };
    for _ in 0..2 {
        for row in 0..3000 {
            index.search(base.set().row(row), &params, None).unwrap();
        }
    }
    let held = index.page_stats();
    assert_eq!((held.resident, held.room), (index.pages(), index.pages()));
    assert_eq!(
        held.resident_bytes(),
        u64::from(index.pages()) * index.layout().page_bytes() as u64
    );
    assert!(held.share_from_memory() > Some(0.5) && held.read > 0, "{held:?}");
    assert!(accountant.held_bytes() <= index.bytes_for_all_pages());
}

#[test]
fn a_limit_below_what_is_needed_is_refused_and_changes_nothing() {
    let (index, accountant, _dir) = opened(None, Resident::All);
    let refused = index.set_memory_limit(Some(1000)).unwrap_err();
    assert_eq!(accountant.limit_bytes(), None);
    assert_eq!(index.resident_pages(), index.pages());
    assert!(refused.to_string().contains(&refused.needed_bytes().to_string()), "{refused}");
    index.set_memory_limit(Some(refused.needed_bytes())).unwrap();
    assert_eq!((index.resident_pages(), accountant.free_bytes()), (0, 0));
    let refused = index.set_memory_limit(Some(refused.needed_bytes() - 1)).unwrap_err();
    assert_eq!(accountant.limit_bytes(), Some(refused.needed_bytes()));
}

#[test]
fn verifying_keeps_no_page_in_memory() {
    let (index, _, _dir) = opened(Some(1 << 30), Resident::Remaining);
    let report = index.verify(&mut |_| {}).unwrap();
    assert_eq!((report.pages, index.resident_pages()), (u64::from(index.pages()), 0));
}
