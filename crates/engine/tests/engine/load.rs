//! What a search does about others that are under way.

use std::path::Path;

use pipeann_engine::index::{Answer, BatchOptions, Index, OpenOptions};
use pipeann_engine::io::BackendChoice;
use pipeann_engine::search::{Policy, SearchParams, Width};
use pipeann_engine::types::{Metric, VectorType};

use crate::data::{Vectors, build_in, clustered, open_options, options};

/// An index on a device of this speed.
fn on(device: &str, dir: &Path) -> Index {
    let device: BackendChoice = format!("injected:{device}").parse().unwrap();
    Index::open(
        dir,
        &OpenOptions { backend: Some(device.backend(None).unwrap()), ..open_options() },
    )
    .unwrap()
}

fn searched(index: &Index, queries: &Vectors, policy: Policy, in_flight: usize) -> Vec<Answer> {
    let params = SearchParams { list: 60, policy, ..Default::default() };
    let batch = BatchOptions { threads: 1, in_flight, allow: None };
    index.search_batch(queries.set(), &params, &batch).unwrap()
}

fn reads(answers: &[Answer]) -> u64 {
    answers.iter().map(|a| a.stats.reads).sum()
}

/// Where the rate of the device is all that there is, what is read in vain is lost to others.
#[test]
fn searches_read_as_little_as_the_narrowest_where_the_device_is_the_limit() {
    let base = clustered(6000, 24, VectorType::F32, 1);
    let queries = clustered(100, 24, VectorType::F32, 2);
    let dir = tempfile::tempdir().unwrap();
    build_in(&dir.path().join("i"), &base, &options(Metric::L2));
    for in_flight in [1, 16] {
        // So slow that it stays the limit where this process gets little of its processors.
        let index = on("30:3000", &dir.path().join("i"));
        let of = |policy| reads(&searched(&index, &queries, policy, in_flight));
        let [least, most] = [1, 8].map(|w| of(Policy { width: Width::Fixed(w), ..Policy::pipe() }));
        // The device is known by now, but how it is used is not learnt from one batch alone.
        of(Policy::auto());
        let found = of(Policy::auto());
        assert!(least * 10 < most * 9, "widths matter: {least} and {most} reads");
        assert!((found - least) * 4 < most - least, "{found} of {least} to {most} reads");
    }
}

/// Where reads take long and nothing hinders them, more are in flight than an equal share.
#[test]
fn searches_go_wider_where_processors_wait_for_a_device_with_room() {
    let base = clustered(6000, 24, VectorType::F32, 1);
    let queries = clustered(60, 24, VectorType::F32, 2);
    let dir = tempfile::tempdir().unwrap();
    build_in(&dir.path().join("i"), &base, &options(Metric::L2));
    let index = on("20000", &dir.path().join("i"));
    let widest = |answers: &[Answer]| answers.iter().map(|a| a.stats.width_max).min();
    searched(&index, &queries, Policy::auto(), 8);
    let answers = searched(&index, &queries, Policy::auto(), 8);
    // Each of these began among eight, whose equal share begins with four.
    assert!(widest(&answers[16..40]) > Some(4), "{:?}", widest(&answers[16..40]));
}

/// Neighbours are found either way; alone a search is that of `pipe`, among many it is narrower.
#[test]
fn a_search_goes_wide_alone_and_narrow_among_many() {
    let base = clustered(6000, 24, VectorType::F32, 1);
    let queries = clustered(60, 24, VectorType::F32, 2);
    let dir = tempfile::tempdir().unwrap();
    build_in(&dir.path().join("i"), &base, &options(Metric::L2));
    let index = on("1000", &dir.path().join("i"));
    // Wide from the start, since among so few rows hardly any search gets wide by itself.
    let width = Width::Dynamic { start: 20, max: 32, converge_at: 5, keep_ratio: 0.9 };
    let widths_and_reads = |policy: Policy, in_flight| {
        let policy = Policy { width: width.clone(), ..policy };
        let answers = searched(&index, &queries, policy, in_flight);
        let widths: Vec<u64> = answers.iter().map(|a| a.stats.width_max).collect();
        (widths, reads(&answers))
    };
    let (alone, _) = widths_and_reads(Policy::auto(), 1);
    assert!(alone.iter().all(|width| *width >= 20), "alone they are wide: {alone:?}");
    let (wide, more) = widths_and_reads(Policy::pipe(), 32);
    assert!(wide.iter().all(|width| *width >= 20), "pipe does not look around: {wide:?}");
    let (narrow, fewer) = widths_and_reads(Policy::auto(), 32);
    // The first begin while few others have, the last while few others are left.
    let in_the_middle = &narrow[16..32];
    assert!(in_the_middle.iter().all(|width| *width <= 8), "{narrow:?}");
    assert!(fewer < more, "{fewer} reads instead of {more}");
    let (again, _) = widths_and_reads(Policy::auto(), 1);
    assert!(again.iter().all(|width| *width >= 20), "those that ended do not count: {again:?}");
}
