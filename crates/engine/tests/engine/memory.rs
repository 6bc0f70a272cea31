//! The memory limit: a floor that is refused with the number needed, and resident pages.

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
        let open = OpenOptions { accountant: accountant.clone(), resident, ..open_options() };
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
