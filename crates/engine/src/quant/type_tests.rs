//! Codes of vectors of every type.

use super::tests::{check_estimates, clustered, encode_all, estimates, loss, options};
use super::*;
use crate::distance::QueryDistance;
use crate::types::{Metric, VectorSet, VectorType, from_f32};

#[test]
fn codes_of_all_types_stand_for_their_vectors() {
    let values: Vec<f32> =
        clustered(2000, 64, 8).into_iter().map(|x| f32::from(x) - 125.0).collect();
    let ids: Vec<u32> = (0..333).collect();
    for ty in VectorType::ALL {
        let mut bytes = Vec::new();
        from_f32(&values, ty, &mut bytes);
        let set = VectorSet::new(&bytes, 64, ty).expect("whole rows");
        for metric in Metric::ALL.into_iter().filter(|&metric| ty.takes_metric(metric)) {
            let book = Codebook::train(set, metric, &options(8));
            let codes = encode_all(&book, set);
            check_estimates(&book, set, &codes, &ids);
            let exact = QueryDistance::new(metric, ty, set.row(0));
            let mut table = LookupTable::new(&book);
            table.fill(&book, set.row(0), ty);
            let near = |id: u32| exact.distance(set.row(id as usize));
            let mut by_code: Vec<(f32, u32)> =
                estimates(&table, &codes, &ids).into_iter().zip(ids.iter().copied()).collect();
            by_code.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
            let mut by_distance: Vec<f32> = ids.iter().map(|&id| near(id)).collect();
            by_distance.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
            let found = by_code[..60].iter().filter(|(_, id)| near(*id) <= by_distance[19]).count();
            assert!(found >= 18, "{found} of the nearest 20 in 60 by code, {ty} {metric}");
        }
    }
}

#[test]
fn eight_bits_fit_a_byte_of_code() {
    let bytes = clustered(3000, 32, 8);
    let set = VectorSet::new(&bytes, 256, VectorType::Binary).expect("whole rows");
    let book = Codebook::train(set, Metric::Hamming, &options(32));
    assert!(loss(&book, set) < 1e-6, "{}", loss(&book, set));
}
