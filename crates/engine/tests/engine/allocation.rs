//! Searching allocates nothing per hop, and taking in a search from elsewhere nothing either: counted by
//! an allocator of this test binary.

use pipeann_engine::build::{BuildOptions, PartitionBy};
use pipeann_engine::search::{GraphView, PageSource, Policy, SearchParams, SearchState, Step};
use pipeann_engine::types::{Metric, VectorType};

use crate::counting::allocations;
use crate::data::{build_in, clustered, open_options, options};
use pipeann_engine::index::{Index, OpenOptions, Resident};

#[test]
fn a_warm_search_allocates_nothing() {
    let base = clustered(3000, 16, VectorType::U8, 1);
    let queries = clustered(50, 16, VectorType::U8, 2);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    let open = OpenOptions { resident: Resident::All, ..open_options() };
    let index = Index::open(&path, &open).unwrap();
    index.wait_resident().unwrap();
    let lease = index.lease(0);
    let view = GraphView { pages: index.all_pages(&lease), ..index.view() };
    assert!(view.pages.is_some());
    let mut state = SearchState::new(&view);
    for policy in [Policy::pipe(), Policy::beam(4), Policy::page(4)] {
        let params = SearchParams { k: 10, list: 100, policy, ..Default::default() };
        let mut run = |query: usize| {
            state.begin(&view, queries.set().row(query), &params, None).unwrap();
            let before = allocations();
            loop {
                match state.step(&view).unwrap() {
                    Step::Read(page) => {
                        state.receive(&view, page, index.resident(&lease, page).unwrap());
                    }
                    Step::Explored => {}
                    Step::Wait => unreachable!("pages are handed over at once"),
                    Step::Elsewhere(_) => unreachable!("every page is here"),
                    Step::Done => break,
                }
            }
            allocations() - before
        };
        run(0);
        for query in 1..50 {
            assert_eq!(run(query), 0, "allocations while searching with {:?}", params.policy);
        }
    }
}

/// States of searches that leave the first of four partitions.
fn leaving(index: &Index, policy: &Policy) -> Vec<Vec<u8>> {
    let queries = clustered(40, 16, VectorType::U8, 2);
    let (view, mut states) = (index.view(), Vec::new());
    let params = SearchParams { k: 10, list: 100, policy: policy.clone(), ..Default::default() };
    let lease = index.lease(0);
    for query in 0..40 {
        let mut state = SearchState::new(&view);
        state.begin(&view, queries.set().row(query), &params, None).unwrap();
        loop {
            match state.step(&view).unwrap() {
                Step::Read(page) => {
                    state.receive(&view, page, index.resident(&lease, page).unwrap());
                }
                Step::Explored => {}
                Step::Wait => unreachable!("pages are handed over at once"),
                Step::Elsewhere(_) => {
                    let mut bytes = Vec::new();
                    state.export(&view, &mut bytes);
                    states.push(bytes);
                    break;
                }
                Step::Done => break,
            }
        }
    }
    states
}

#[test]
fn a_warm_state_takes_in_a_search_from_elsewhere_without_allocating() {
    let base = clustered(3000, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    let partition_by = PartitionBy::Random;
    let built = BuildOptions { partitions: 4, partition_by, ..options(Metric::L2) };
    build_in(&path, &base, &built);
    let open = OpenOptions { resident: Resident::All, own: Some([0].into()), ..open_options() };
    let index = Index::open(&path, &open).unwrap();
    index.wait_resident().unwrap();
    let view = index.view();
    for policy in [Policy::relay(2, 8), Policy::baton(64)] {
        // Those that begin where they come have read here.
        let states = leaving(&index, &Policy { home: false, ..policy.clone() });
        assert!(states.len() > 20, "{} of 40 left", states.len());
        let mut state = SearchState::new(&view);
        let mut take_in = |bytes: &[u8]| {
            let before = allocations();
            state.import(&view, bytes, None).unwrap();
            allocations() - before
        };
        let warming: u64 = states.iter().map(|bytes| take_in(bytes)).sum();
        assert!(warming > 0, "the first ones make room");
        for bytes in &states {
            assert_eq!(take_in(bytes), 0, "allocations for {} bytes with {policy:?}", bytes.len());
        }
    }
}
