//! What a search does about others that are under way.

use pipeann_engine::index::BatchOptions;
use pipeann_engine::search::{Policy, SearchParams};
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
    let widths = |policy: Policy, in_flight| {
        let params = SearchParams { list: 60, policy, ..Default::default() };
        let batch = BatchOptions { threads: 1, in_flight, allow: None };
        let answers = index.search_batch(queries.set(), &params, &batch).unwrap();
        answers.iter().map(|a| a.stats.width_max).collect::<Vec<u64>>()
    };
    let alone = widths(Policy::auto(), 1);
    assert!(alone.iter().all(|width| *width > 4), "alone they widen: {alone:?}");
    let wide = widths(Policy::pipe(), 32);
    assert!(wide.iter().any(|width| *width > 8), "pipe does not look around: {wide:?}");
    let narrow = widths(Policy::auto(), 32);
    // The first begin while few others have, the last while few others are left.
    let in_the_middle = &narrow[16..32];
    assert!(in_the_middle.iter().all(|width| *width <= 8), "{narrow:?}");
    let again = widths(Policy::auto(), 1);
    assert!(again.iter().any(|width| *width > 8), "those that ended do not count: {again:?}");
}
