//! What searches of a built index answer.

use pipeann_engine::build::{BuildError, BuildOptions, Silent, SourceRows, build, build_rows};
use pipeann_engine::index::{BatchOptions, Index, OpenOptions, QueryError};
use pipeann_engine::quant::CodeKind;
use pipeann_engine::search::{Policy, SearchParams};
use pipeann_engine::types::{Metric, RowId, VectorSet, VectorType, from_f32};
use pipeann_engine::update::{LiveIndex, LiveOptions};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::data::{Vectors, build_in, clustered, open, options, truth};

fn recall(index: &Index, queries: &Vectors, truth: &[Vec<u64>], params: &SearchParams) -> f64 {
    let batch = BatchOptions { threads: 2, in_flight: 4, allow: None };
    let answers = index.search_batch(queries.set(), params, &batch).unwrap();
    let mut found = 0;
    for (answer, truth) in answers.iter().zip(truth) {
        found += answer.hits.iter().filter(|h| truth.contains(&h.row.0)).count();
    }
    found as f64 / (truth.len() * params.k) as f64
}

#[test]
fn every_metric_type_and_policy_finds_the_neighbours() {
    let all = VectorType::ALL.into_iter().flat_map(|ty| Metric::ALL.map(|metric| (metric, ty)));
    for (metric, ty) in all.filter(|(metric, ty)| ty.takes_metric(*metric)) {
        let dim = if ty == VectorType::Binary { 192 } else { 24 };
        let base = clustered(3000, dim, ty, 1);
        let queries = clustered(60, dim, ty, 2);
        let truth = truth(&base, &queries, metric, 10);
        let dir = tempfile::tempdir().unwrap();
        build_in(&dir.path().join("i"), &base, &options(metric));
        let index = open(&dir.path().join("i"));
        for policy in [Policy::pipe(), Policy::beam(4), Policy::page(4)] {
            let params = SearchParams { k: 10, list: 80, policy, ..Default::default() };
            let recall = recall(&index, &queries, &truth, &params);
            assert!(recall >= 0.95, "{recall} for {metric} {ty} {:?}", params.policy);
        }
    }
}

#[test]
fn by_inner_product_a_search_does_not_stop_early() {
    let base = clustered(3000, 24, VectorType::U8, 1);
    let queries = clustered(60, 24, VectorType::U8, 2);
    let dir = tempfile::tempdir().unwrap();
    build_in(&dir.path().join("i"), &base, &options(Metric::InnerProduct));
    let index = open(&dir.path().join("i"));
    for query in 0..60 {
        let [stops, does_not] = [true, false].map(|early_stop| {
            let policy = Policy { early_stop, ..Policy::page(4) };
            let params = SearchParams { k: 10, list: 40, policy, ..Default::default() };
            index.search(queries.set().row(query), &params, None).unwrap()
        });
        assert_eq!(stops.hits, does_not.hits);
        assert_eq!(stops.stats.reads, does_not.stats.reads);
    }
}

#[test]
fn distances_are_exact_and_on_the_metrics_own_scale() {
    let base = clustered(500, 8, VectorType::F32, 1);
    let dir = tempfile::tempdir().unwrap();
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let path = dir.path().join(metric.name());
        build_in(&path, &base, &options(metric));
        let index = open(&path);
        let query = base.set().row(17);
        let answer = index.search(query, &SearchParams::default(), None).unwrap();
        let q: Vec<f64> = floats(query);
        for hit in answer.hits {
            let x = floats(base.set().row(hit.row.0 as usize));
            let dot: f64 = q.iter().zip(&x).map(|(a, b)| a * b).sum();
            let norm = |v: &[f64]| v.iter().map(|a| a * a).sum::<f64>().sqrt();
            let expected = match metric {
                Metric::L2 => q.iter().zip(&x).map(|(a, b)| (a - b) * (a - b)).sum(),
                Metric::InnerProduct => -dot,
                Metric::Cosine => 1.0 - dot / (norm(&q) * norm(&x)),
                Metric::Hamming | Metric::Jaccard => unreachable!("not of floats"),
            };
            assert!((f64::from(hit.distance) - expected).abs() < 1e-4, "{metric}: {expected}");
        }
    }
}

fn floats(bytes: &[u8]) -> Vec<f64> {
    let float = |c: &[u8]| f64::from(f32::from_le_bytes(c.try_into().unwrap()));
    bytes.chunks_exact(4).map(float).collect()
}

#[test]
fn an_index_of_three_partitions_with_edges_across_answers_as_one() {
    let base = clustered(3000, 24, VectorType::U8, 1);
    let queries = clustered(60, 24, VectorType::U8, 2);
    let truth = truth(&base, &queries, Metric::L2, 10);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &BuildOptions { partitions: 3, ..options(Metric::L2) });
    let index = open(&path);
    assert_eq!(index.manifest().partitions.len(), 3);
    let params = SearchParams { k: 10, list: 80, ..Default::default() };
    assert!(recall(&index, &queries, &truth, &params) >= 0.95);
    let report = index.verify(&mut |_| {}).unwrap();
    assert_eq!((report.damage, report.records), (vec![], 3000));
    let allow = index.allow_rows(&(0..3000).step_by(7).map(RowId).collect::<Vec<_>>()).unwrap();
    assert_eq!(allow.len(), 429);
    let first = index.search(queries.set().row(0), &params, Some(Arc::new(allow))).unwrap();
    assert!(first.hits.iter().all(|h| h.row.0 % 7 == 0) && first.hits.len() == 10);
}

#[test]
fn bits_answer_from_three_partitions_and_among_rows() {
    let base = clustered(3000, 192, VectorType::Binary, 1);
    let queries = clustered(60, 192, VectorType::Binary, 2);
    for metric in [Metric::Hamming, Metric::Jaccard] {
        let truth = truth(&base, &queries, metric, 10);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i");
        build_in(&path, &base, &BuildOptions { partitions: 3, ..options(metric) });
        let index = open(&path);
        let params = SearchParams { k: 10, list: 80, ..Default::default() };
        assert!(recall(&index, &queries, &truth, &params) >= 0.95);
        let report = index.verify(&mut |_| {}).unwrap();
        assert_eq!((report.damage, report.records), (vec![], 3000));
        let rows: Vec<RowId> = (0..3000).step_by(7).map(RowId).collect();
        let allow = Arc::new(index.allow_rows(&rows).unwrap());
        let found = index.search(queries.set().row(0), &params, Some(allow)).unwrap().hits;
        assert!(found.len() == 10 && found.iter().all(|h| h.row.0 % 7 == 0));
    }
}

#[test]
fn a_metric_of_another_type_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |ty, metric| {
        let base = clustered(20, 16, ty, 1);
        let never = AtomicBool::new(false);
        build(base.set(), &dir.path().join("i"), &options(metric), &Silent, &never).unwrap_err()
    };
    let error = refused(VectorType::Binary, Metric::L2);
    assert!(error.to_string().starts_with("binary vectors are not compared by l2"), "{error}");
    let error = refused(VectorType::F16, Metric::Jaccard);
    assert!(matches!(error, BuildError::Metric { .. }), "{error}");
    let ragged = VectorSet::new(&[0; 8], 12, VectorType::Binary).unwrap_err();
    assert_eq!(ragged.to_string(), "binary vectors have a multiple of 8 dimensions, not 12");
}

#[test]
fn halves_that_are_not_finite_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for ty in [VectorType::F16, VectorType::BF16] {
        let base = clustered(50, 16, ty, 1);
        let path = dir.path().join(ty.name());
        build_in(&path, &base, &options(Metric::Cosine));
        let index = open(&path);
        for value in [f32::NAN, f32::INFINITY] {
            let mut bytes = Vec::new();
            from_f32(&[value; 16], ty, &mut bytes);
            let refused = index.search(&bytes, &SearchParams::default(), None).unwrap_err();
            assert!(matches!(refused, QueryError::NotFinite { row: 0 }), "{refused}");
            let set = VectorSet::new(&bytes, 16, ty).unwrap();
            let never = AtomicBool::new(false);
            let (other, options) = (dir.path().join("other"), options(Metric::L2));
            let refused = build(set, &other, &options, &Silent, &never).unwrap_err();
            assert!(matches!(refused, BuildError::NotFinite { row: 0, .. }), "{refused}");
        }
    }
}

#[test]
fn records_may_take_whole_pages() {
    for dim in [1000, 1500, 5000] {
        let base = clustered(300, dim, VectorType::F32, 1);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i");
        build_in(&path, &base, &options(Metric::L2));
        let index = open(&path);
        for row in [0, 150, 299] {
            let answer = index.search(base.set().row(row), &SearchParams::default(), None).unwrap();
            assert_eq!((answer.hits[0].row.0, answer.hits[0].distance), (row as u64, 0.0));
        }
    }
}

#[test]
fn tiny_and_uniform_sets_are_answered_in_full() {
    let dir = tempfile::tempdir().unwrap();
    for rows in [1, 2, 5, 40] {
        let path = dir.path().join(rows.to_string());
        let base = clustered(rows, 8, VectorType::U8, 5);
        build_in(&path, &base, &options(Metric::L2));
        let index = open(&path);
        let params = SearchParams { k: 50, list: 50, ..Default::default() };
        let hits = index.search(base.set().row(0), &params, None).unwrap().hits;
        let distinct: HashSet<u64> = hits.iter().map(|h| h.row.0).collect();
        assert_eq!(distinct.len(), rows, "k beyond n answers all rows");
    }
    let equal = Vectors { bytes: vec![7; 300 * 8], dim: 8, ty: VectorType::U8 };
    build_in(&dir.path().join("equal"), &equal, &options(Metric::L2));
    let index = open(&dir.path().join("equal"));
    let hits = index.search(&[7; 8], &SearchParams::default(), None).unwrap().hits;
    assert!(hits.len() == 10 && hits.iter().all(|h| h.distance == 0.0));
}

#[test]
fn a_cursor_hands_out_each_row_once_nearest_first() {
    let base = clustered(2000, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    let index = open(&path);
    let query = clustered(1, 16, VectorType::U8, 3);
    let params = SearchParams { k: 20, list: 60, ..Default::default() };
    let mut cursor = index.cursor(query.set().row(0), &params, None).unwrap();
    let mut rows = Vec::new();
    for portion in [20, 30, 50, 100] {
        let hits = cursor.next(portion).unwrap();
        assert_eq!(hits.len(), portion);
        rows.extend(hits.iter().map(|h| h.row.0));
    }
    assert_eq!(rows.iter().collect::<HashSet<_>>().len(), 200, "each row once");
    let truth: HashSet<u64> = truth(&base, &query, Metric::L2, 200)[0].iter().copied().collect();
    let found = rows.iter().filter(|r| truth.contains(r)).count();
    assert!(found >= 186, "{found} of 200");
}

#[test]
fn a_cursor_ends_when_the_index_is_exhausted() {
    let base = clustered(30, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    let index = open(&path);
    let mut cursor = index.cursor(base.set().row(3), &SearchParams::default(), None).unwrap();
    let mut all = Vec::new();
    for _ in 0..6 {
        all.extend(cursor.next(10).unwrap());
    }
    assert_eq!(all.len(), 30);
}

#[test]
fn bad_queries_are_refused_with_a_reason() {
    let base = clustered(200, 16, VectorType::F32, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::Cosine));
    let index = open(&path);
    let params = SearchParams::default();
    let ask = |query: &[u8]| index.search(query, &params, None).unwrap_err();
    assert!(matches!(ask(&[0; 60]), QueryError::Dimension { expected: 16, found: 15 }));
    let mut nan = base.set().row(0).to_vec();
    nan[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(matches!(ask(&nan), QueryError::NotFinite { row: 0 }));
    nan[..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    assert!(matches!(ask(&nan), QueryError::NotFinite { row: 0 }));
    let too_long = 3e38f32.to_le_bytes().repeat(16);
    assert!(matches!(ask(&too_long), QueryError::Norm { row: 0, .. }));
    assert!(ask(&too_long).to_string().contains("3.4028235e38"), "{}", ask(&too_long));
    let bytes = VectorSet::new(&[1; 16], 16, VectorType::U8).unwrap();
    let refused = index.search_batch(bytes, &params, &BatchOptions::default()).unwrap_err();
    assert_eq!(refused.to_string(), "query is of type u8, the index holds f32");
    let short = SearchParams { k: 10, list: 5, ..Default::default() };
    let refused = index.search(base.set().row(0), &short, None).unwrap_err();
    assert_eq!(refused.to_string(), "list is 5, but must be from 10 to 65536");
    let unknown = index.allow_rows(&[RowId(3), RowId(200)]).unwrap_err();
    assert_eq!(unknown.to_string(), "row 200 does not exist in this index");
}

#[test]
fn row_ids_may_be_given_and_have_holes() {
    let base = clustered(700, 16, VectorType::U8, 1);
    let ids: Vec<RowId> = (0..700).map(|i| RowId(5 + 3 * i + i / 100 * 1000)).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    let (never, options) = (AtomicBool::new(false), options(Metric::L2));
    let rows = SourceRows { ids: &ids, applied: 77 };
    build_rows(base.set(), rows, &path, &options, &Silent, &never).unwrap();
    let index = open(&path);
    assert_eq!(index.verify(&mut |_| {}).unwrap().damage, []);
    for at in [0, 99, 100, 699] {
        let query = base.set().row(at);
        let answer = index.search(query, &SearchParams::default(), None).unwrap();
        assert_eq!((answer.hits[0].row, answer.hits[0].distance), (ids[at], 0.0));
        let allow = Arc::new(index.allow_rows(&ids[at..=at]).unwrap());
        let answer = index.search(query, &SearchParams::default(), Some(allow)).unwrap();
        assert_eq!(answer.hits.iter().map(|h| h.row).collect::<Vec<_>>(), [ids[at]]);
    }
    assert!(index.allow_rows(&[RowId(6)]).is_err(), "a hole is no row");
    drop(index);
    let open = OpenOptions { direct: false, ..OpenOptions::default() };
    let live = LiveIndex::open(&path, LiveOptions { open, ..LiveOptions::default() }).unwrap();
    assert_eq!((live.row_ids(), live.applied()), (ids, 77));
    let twice = SourceRows { ids: &[RowId(1), RowId(1)], applied: 0 };
    let two = clustered(2, 16, VectorType::U8, 1);
    let refused = build_rows(two.set(), twice, &dir.path().join("j"), &options, &Silent, &never);
    assert!(matches!(refused, Err(BuildError::Rows { row: 1, .. })));
}

/// A third of the rows are zero; every hundredth otherwise.
fn with_zeros(rows: usize, ty: VectorType, seed: u64, every: usize) -> Vectors {
    let mut vectors = clustered(rows, 24, ty, seed);
    let bytes = ty.vector_bytes(24);
    for row in (0..rows).step_by(every) {
        vectors.bytes[row * bytes..][..bytes].fill(0);
    }
    vectors
}

#[test]
fn zero_vectors_are_at_cosine_distance_one_and_in_nobodys_way() {
    let types = VectorType::ALL.into_iter().filter(|ty| ty.takes_metric(Metric::Cosine));
    for (ty, every) in types.flat_map(|ty| [(ty, 3), (ty, 100)]) {
        let base = with_zeros(2000, ty, 1, every);
        let queries = clustered(40, 24, ty, 2);
        let near = truth(&base, &queries, Metric::Cosine, 10);
        for codes in [CodeKind::Product, CodeKind::Rabitq] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("i");
            build_in(&path, &base, &BuildOptions { codes, ..options(Metric::Cosine) });
            let index = open(&path);
            let params = SearchParams { k: 10, list: 80, ..Default::default() };
            let found = recall(&index, &queries, &near, &params);
            assert!(found >= 0.95, "{found} for {ty}, a zero row in {every}");
            let zero = vec![0; ty.vector_bytes(24)];
            let answer = index.search(&zero, &params, None).unwrap();
            assert_eq!(answer.hits.len(), 10, "{ty}");
            assert!(answer.hits.iter().all(|hit| hit.distance == 1.0), "{:?}", answer.hits);
            // All rows: the zero rows are there, at 1.
            let all = SearchParams { k: 2000, list: 2000, ..Default::default() };
            let hits = index.search(queries.set().row(0), &all, None).unwrap().hits;
            let zeros = hits.iter().filter(|hit| (hit.row.0 as usize).is_multiple_of(every));
            let zeros: Vec<f32> = zeros.map(|hit| hit.distance).collect();
            assert_eq!(zeros, vec![1.0; 2000usize.div_ceil(every)], "{ty}, {every}");
        }
    }
}
