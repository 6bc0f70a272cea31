//! What a search does about others that are under way.

use pipeann_engine::index::BatchOptions;
use pipeann_engine::search::{Policy, SearchParams, Width};
use pipeann_engine::types::{Metric, VectorType};

use crate::data::{build_in, clustered, open, options};

/// Neighbours are found either way; alone a search is that of `pipe`, among many it is narrower.
#[test]
fn a_search_goes_wide_alone_and_narrow_among_many() {
    let base = clustered(6000, 24, VectorType::F32, 1);
    let queries = clustered(60, 24, VectorType::F32, 2);
    let dir = tempfile::tempdir().unwrap();
    build_in(&dir.path().join("i"), &base, &options(Metric::L2));
    let index = open(&dir.path().join("i"));
    // Wide from the start, since among so few rows hardly any search gets wide by itself.
    let width = Width::Dynamic { start: 20, max: 32, converge_at: 5, keep_ratio: 0.9 };
    let widths_and_reads = |policy: Policy, in_flight| {
        let policy = Policy { width: width.clone(), ..policy };
        let params = SearchParams { list: 60, policy, ..Default::default() };
        let batch = BatchOptions { threads: 1, in_flight, allow: None };
        let answers = index.search_batch(queries.set(), &params, &batch).unwrap();
        let widths: Vec<u64> = answers.iter().map(|a| a.stats.width_max).collect();
        (widths, answers.iter().map(|a| a.stats.reads).sum::<u64>())
    };
    let (alone, _) = widths_and_reads(Policy::auto(), 1);
    assert!(alone.iter().all(|width| *width >= 20), "alone they are wide: {alone:?}");
    let (wide, more) = widths_and_reads(Policy::pipe(), 32);
    assert!(wide.iter().all(|width| *width >= 20), "pipe does not look around: {wide:?}");
    let (narrow, fewer) = widths_and_reads(Policy::auto(), 32);
    // The first begin while few others have, the last while few others are left.
    let in_the_middle = &narrow[16..32];
    assert!(in_the_middle.iter().all(|width| *width == 8), "{narrow:?}");
    assert!(fewer < more, "{fewer} reads instead of {more}");
    let (again, _) = widths_and_reads(Policy::auto(), 1);
    assert!(again.iter().all(|width| *width >= 20), "those that ended do not count: {again:?}");
}
