//! Exact truth against brute force.

use crate::data::{DIM, Place, clustered};

/// Rows of all base vectors by (squared distance, row).
fn nearest(base: &[u8], query: &[u8]) -> Vec<(u64, u32)> {
    let mut all: Vec<(u64, u32)> = base
        .chunks_exact(DIM)
        .zip(0..)
        .map(|(row, id)| {
            let squares = row.iter().zip(query).map(|(&a, &b)| u64::from(a.abs_diff(b)).pow(2));
            (squares.sum(), id)
        })
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn truth_is_what_brute_force_finds_ties_included() {
    let place = Place::new(10);
    // Every vector three times, so that ties are everywhere.
    let base = clustered(700, 5).repeat(3);
    place.write("base.u8bin", &crate::data::u8bin(2100, DIM, &base));
    let told =
        place.json("gt --base base.u8bin --queries query.u8bin --k 30 --metric l2 --out t.bin");
    assert_eq!((&told[0]["queries"], &told[0]["k"]), (&50.into(), &30.into()));
    let bytes = std::fs::read(place.path("t.bin")).unwrap();
    assert_eq!(bytes.len(), 8 + 50 * 30 * 8);
    assert_eq!(bytes[..8], [50, 0, 0, 0, 30, 0, 0, 0]);
    let words: Vec<u32> =
        bytes[8..].chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    let (ids, distances) = words.split_at(50 * 30);
    for (q, query) in clustered(50, 2).chunks_exact(DIM).enumerate() {
        for (i, (distance, id)) in nearest(&base, query).into_iter().take(30).enumerate() {
            assert_eq!(ids[q * 30 + i], id, "query {q}, place {i}");
            assert_eq!(f32::from_bits(distances[q * 30 + i]), distance as f32);
        }
    }
}

#[test]
fn more_neighbours_than_rows_are_refused() {
    let place = Place::new(10);
    let line = "gt --base base.u8bin --queries query.u8bin --k 11 --metric l2 --out t.bin";
    assert!(place.refusal(line).contains("only 10 rows"));
    assert!(!place.path("t.bin").exists());
}
