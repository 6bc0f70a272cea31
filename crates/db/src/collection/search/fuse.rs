//! One ranking made of several searches of a collection.
//!
//! A row that several searches find is one row, known by its key; it keeps what the first of them
//! read of it.

use std::collections::HashMap;
use std::f32::consts::PI;

use super::answer::SearchHit;
use crate::collection::read::rows::FoundRow;
use crate::ids::Metric;
use crate::schema::PrimaryKey;

/// How several rankings become one.
#[derive(Clone, Debug, PartialEq)]
pub enum Ranker {
    /// By places: each ranking gives `1 / (k + place)`, places from 1.
    Reciprocal {
        /// The larger, the less the first places count.
        k: f32,
    },
    /// By scores: each ranking gives its score times its weight.
    Weighted {
        /// One for each ranking.
        weights: Vec<f32>,
        /// Whether scores are brought into the range from 0 to 1 first. Where they are not, and all
        /// are distances, the sums are distances too, and the smallest is the best.
        normalised: bool,
    },
}

/// Whether the scores of a metric are larger for what is nearer.
fn scores_are_similarities(metric: Metric) -> bool {
    match metric {
        Metric::InnerProduct | Metric::Cosine => true,
        Metric::L2 | Metric::Hamming | Metric::Jaccard => false,
    }
}

/// The similarity that a distance stands for, larger for what is nearer.
fn similarity(metric: Metric, distance: f32, normalised: bool) -> f32 {
    // What is calculated of copies may lie a little beyond.
    let distance = if metric == Metric::Cosine { distance.clamp(0.0, 2.0) } else { distance };
    match (metric, normalised) {
        // Beside similarities a distance has to be turned round in any case.
        (Metric::L2 | Metric::Hamming | Metric::Jaccard, _) => 1.0 - 2.0 * distance.atan() / PI,
        (Metric::InnerProduct, false) => -distance,
        (Metric::InnerProduct, true) => 0.5 + (-distance).atan() / PI,
        (Metric::Cosine, false) => 1.0 - distance,
        (Metric::Cosine, true) => (2.0 - distance) / 2.0,
    }
}

/// The rows that several searches found for one query, by their scores, best first.
///
/// # Panics
/// Where weights are given, and not one for each search.
#[must_use]
pub fn fuse(searches: Vec<(Metric, Vec<SearchHit>)>, ranker: &Ranker) -> Vec<(f32, FoundRow)> {
    if let Ranker::Weighted { weights, .. } = ranker {
        assert_eq!(weights.len(), searches.len(), "each search has a weight");
    }
    let by_distance = matches!(ranker, Ranker::Weighted { normalised: false, .. })
        && !searches.iter().any(|(metric, _)| scores_are_similarities(*metric));
    let mut places: HashMap<PrimaryKey, usize> = HashMap::new();
    let mut fused: Vec<(f32, FoundRow)> = Vec::new();
    for (number, (metric, hits)) in searches.into_iter().enumerate() {
        for (place, hit) in hits.into_iter().enumerate() {
            let score = match ranker {
                Ranker::Reciprocal { k } => 1.0 / (k + place as f32 + 1.0),
                Ranker::Weighted { weights, .. } if by_distance => weights[number] * hit.distance,
                Ranker::Weighted { weights, normalised } => {
                    weights[number] * similarity(metric, hit.distance, *normalised)
                }
            };
            match places.get(&hit.row.key) {
                Some(&at) => fused[at].0 += score,
                None => {
                    places.insert(hit.row.key.clone(), fused.len());
                    fused.push((score, hit.row));
                }
            }
        }
    }
    fused.sort_by(|(a, first), (b, second)| {
        let order = if by_distance { a.total_cmp(b) } else { b.total_cmp(a) };
        order.then(first.key.cmp(&second.key))
    });
    fused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RowId;

    fn hit(key: i64, distance: f32) -> SearchHit {
        let row = RowId(key.unsigned_abs());
        let row = FoundRow { row, key: PrimaryKey::Int64(key), values: Vec::new() };
        SearchHit { distance, row }
    }

    fn keys(fused: &[(f32, FoundRow)]) -> Vec<PrimaryKey> {
        fused.iter().map(|(_, row)| row.key.clone()).collect()
    }

    #[test]
    fn a_row_that_both_find_is_before_those_that_one_finds() {
        let searches = vec![
            (Metric::L2, vec![hit(1, 0.0), hit(2, 1.0)]),
            (Metric::Cosine, vec![hit(3, 0.0), hit(2, 0.5)]),
        ];
        let fused = fuse(searches, &Ranker::Reciprocal { k: 60.0 });
        assert_eq!(keys(&fused), [2, 1, 3].map(PrimaryKey::Int64));
        assert!((fused[0].0 - 2.0 / 62.0).abs() < 1e-6);
        assert!((fused[1].0 - 1.0 / 61.0).abs() < 1e-6);
    }

    #[test]
    fn weights_count_scores_that_are_larger_for_what_is_nearer() {
        let searches = || {
            vec![
                (Metric::L2, vec![hit(1, 0.0), hit(2, 1.0)]),
                (Metric::InnerProduct, vec![hit(2, -1.0), hit(1, 1.0)]),
            ]
        };
        let ranker =
            |weights: [f32; 2]| Ranker::Weighted { weights: weights.to_vec(), normalised: true };
        assert_eq!(keys(&fuse(searches(), &ranker([1.0, 0.1]))), [1, 2].map(PrimaryKey::Int64));
        let fused = fuse(searches(), &ranker([0.1, 1.0]));
        assert_eq!(keys(&fused), [2, 1].map(PrimaryKey::Int64));
        // L2 of 1 is 0.5, an inner product of 1 is 0.75.
        assert!((fused[0].0 - (0.1 * 0.5 + 0.75)).abs() < 1e-6);
    }

    #[test]
    fn distances_alone_are_added_as_they_are_unless_they_are_normalised() {
        let weighted = |normalised| Ranker::Weighted { weights: vec![0.5, 0.5], normalised };
        let searches = |metric| {
            vec![
                (Metric::L2, vec![hit(1, 0.0), hit(2, 2.0)]),
                (metric, vec![hit(2, 2.0), hit(1, 9.0)]),
            ]
        };
        for metric in [Metric::L2, Metric::Hamming, Metric::Jaccard] {
            let fused = fuse(searches(metric), &weighted(false));
            assert_eq!(keys(&fused), [2, 1].map(PrimaryKey::Int64), "{metric}");
            assert_eq!([fused[0].0, fused[1].0], [2.0, 4.5], "{metric}");
            let fused = fuse(searches(metric), &weighted(true));
            assert_eq!(keys(&fused), [1, 2].map(PrimaryKey::Int64), "{metric}");
        }
        // Beside a similarity the distance of 0 is turned into 1.
        let fused = fuse(searches(Metric::InnerProduct), &weighted(false));
        assert_eq!(keys(&fused), [2, 1].map(PrimaryKey::Int64));
        assert!((fused[1].0 - (0.5 - 4.5)).abs() < 1e-6, "{}", fused[1].0);
        // What only one search has found has the smaller sum, as in Milvus.
        let one =
            vec![(Metric::L2, vec![hit(1, 1.0), hit(2, 2.0)]), (Metric::L2, vec![hit(1, 2.0)])];
        assert_eq!(keys(&fuse(one, &weighted(false))), [2, 1].map(PrimaryKey::Int64));
    }

    #[test]
    fn every_similarity_grows_with_nearness_and_normalised_ones_are_bounded() {
        for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
            for normalised in [false, true] {
                let near = similarity(metric, 0.1, normalised);
                assert!(near > similarity(metric, 0.2, normalised), "{metric}");
            }
            assert!((0.0..=1.0).contains(&similarity(metric, 1.5, true)), "{metric}");
        }
        assert!(similarity(Metric::InnerProduct, -1e9, true) <= 1.0);
        for normalised in [false, true] {
            assert_eq!(similarity(Metric::Cosine, -1.2e-7, normalised), 1.0, "of a copy");
        }
    }
}
