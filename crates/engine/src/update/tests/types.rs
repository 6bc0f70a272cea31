//! Live updates of vectors of every type, by every metric.

use super::{Rows, assert_sound, built_of, consolidate, delete_all, live, params, read_only};
use crate::distance::QueryDistance;
use crate::search::Hit;
use crate::types::{Metric, RowId, VectorType, from_f32};
use crate::update::LiveIndex;

/// Rows of `ty`: around 0 where there is a sign. Bits say on which side of a middle components are.
struct Typed {
    bytes: Vec<u8>,
    row_bytes: usize,
    dim: usize,
    ty: VectorType,
    metric: Metric,
}

impl Typed {
    fn new(rows: usize, ty: VectorType, metric: Metric) -> Self {
        let dim = if ty == VectorType::Binary { 128 } else { 16 };
        let source = Rows::clustered(rows, dim, 1);
        let middle = if ty == VectorType::U8 { 0.0 } else { 120.0 };
        let mut bytes = Vec::new();
        for row in 0..rows {
            let row: Vec<f32> = source.row(row).iter().map(|&x| f32::from(x) - middle).collect();
            from_f32(&row, ty, &mut bytes);
        }
        Self { bytes, row_bytes: ty.vector_bytes(dim), dim, ty, metric }
    }

    fn row(&self, row: usize) -> &[u8] {
        &self.bytes[row * self.row_bytes..(row + 1) * self.row_bytes]
    }

    /// How many of the 10 nearest of each 50th row are found, up to others equally near.
    fn check(&self, live: std::ops::Range<usize>, step: &str, search: &dyn Fn(&[u8]) -> Vec<Hit>) {
        let (mut found, mut all) = (0, 0);
        for q in (live.start + 1..live.end).step_by(50) {
            let distance = QueryDistance::new(self.metric, self.ty, self.row(q));
            let mut truth: Vec<f32> =
                live.clone().map(|r| distance.distance(self.row(r))).collect();
            truth.sort_by(|a, b| a.partial_cmp(b).unwrap());
            let hits = search(self.row(q));
            for hit in &hits {
                assert!(live.contains(&(hit.row.0 as usize)), "row {} is gone", hit.row.0);
                assert_eq!(hit.distance, distance.distance(self.row(hit.row.0 as usize)));
            }
            found += hits.iter().filter(|hit| hit.distance <= truth[9]).count();
            all += 10;
        }
        assert!(found * 20 >= all * 19, "{found} of {all}, {} {}, {step}", self.ty, self.metric);
    }
}

fn searched(index: &LiveIndex) -> impl Fn(&[u8]) -> Vec<Hit> {
    move |query| index.search(query, &params(80), None).unwrap().hits
}

fn inserts_and_deletes(ty: VectorType, metric: Metric) {
    let rows = Typed::new(2_000, ty, metric);
    let place = built_of(&rows.bytes[..1_300 * rows.row_bytes], rows.dim, ty, metric);
    let index = live(&place.path);
    (1_300..2_000).for_each(|r| drop(index.insert(RowId(r as u64), rows.row(r)).unwrap()));
    delete_all(&index, 0..300);
    rows.check(300..2_000, "inserted", &searched(&index));
    consolidate(&index);
    rows.check(300..2_000, "consolidated", &searched(&index));
    index.checkpoint(1).unwrap();
    rows.check(300..2_000, "folded", &searched(&index));
    let some = index.among(10, |batch| (1_990..2_000).for_each(|row| batch(&[RowId(row)])));
    let hits = index.search(rows.row(700), &params(80), Some(&some)).unwrap().hits;
    assert_eq!(hits.len(), 10);
    assert!(hits.iter().all(|h| h.row.0 >= 1_990), "{hits:?}");
    assert!(index.among(1, |batch| batch(&[RowId(3)])).is_empty(), "a deleted row has no node");
    drop(index);
    assert_sound(&place.path);
    let index = read_only(&place.path);
    let search = |query: &[u8]| index.search(query, &params(80), None).unwrap().hits;
    rows.check(300..2_000, "opened again", &search);
}

#[test]
fn floats_are_inserted_and_deleted_by_every_metric() {
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        inserts_and_deletes(VectorType::F32, metric);
    }
}

#[test]
fn halves_are_inserted_and_deleted_by_every_metric() {
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        inserts_and_deletes(VectorType::F16, metric);
        inserts_and_deletes(VectorType::BF16, metric);
    }
}

#[test]
fn bytes_are_inserted_and_deleted_by_every_metric() {
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        inserts_and_deletes(VectorType::I8, metric);
        inserts_and_deletes(VectorType::U8, metric);
    }
}

#[test]
fn bits_are_inserted_and_deleted_by_every_metric() {
    for metric in [Metric::Hamming, Metric::Jaccard] {
        inserts_and_deletes(VectorType::Binary, metric);
    }
}
