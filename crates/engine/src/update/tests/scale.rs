//! Rows far longer or shorter than those that an index was built of.

use super::{Numbers, built_of, live, params};
use crate::build::{BuildOptions, Silent, build};
use crate::types::{ErrorClass, Metric, RowId, VectorSet, VectorType};
use crate::update::UpdateError;

const DIM: usize = 16;

/// A vector in a direction of its own, of this norm.
fn vector(seed: u64, norm: f64) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let parts: Vec<f64> = (0..DIM).map(|_| numbers.below(2001) as f64 - 1000.0).collect();
    let length = parts.iter().map(|x| x * x).sum::<f64>().sqrt();
    parts.iter().flat_map(|x| ((x * norm / length) as f32).to_le_bytes()).collect()
}

fn alike(rows: u64) -> Vec<u8> {
    (0..rows).flat_map(|row| vector(row, 1.0)).collect()
}

#[test]
fn a_row_that_codes_do_not_reach_is_refused_by_name_and_changes_nothing() {
    for metric in [Metric::L2, Metric::InnerProduct] {
        let place = built_of(&alike(500), DIM, VectorType::F32, metric);
        let index = live(&place.path);
        let error = index.insert(RowId(500), &vector(500, 1e12)).unwrap_err();
        assert!(matches!(error, UpdateError::Scale { row: RowId(500), .. }), "{error}");
        assert_eq!(error.class(), ErrorClass::FixInput);
        assert!(error.to_string().contains("1.000e12"), "{error}");
        assert_eq!(index.rows(), 500);
        index.insert(RowId(500), &vector(500, 3.0)).unwrap();
        let hits = index.search(&vector(500, 3.0), &params(10), None).unwrap().hits;
        assert_eq!(hits[0].row, RowId(500), "{metric}");
    }
}

#[test]
fn some_short_rows_are_taken_and_many_refused() {
    let place = built_of(&alike(500), DIM, VectorType::F32, Metric::L2);
    let index = live(&place.path);
    let mut inserted = (500..).map(|row| index.insert(RowId(row), &vector(row, 1e-6)));
    let taken = inserted.by_ref().take_while(Result::is_ok).count();
    assert_eq!(taken, 32, "as few as any search finds");
    let error = inserted.next().unwrap().unwrap_err();
    assert!(matches!(error, UpdateError::Scale { .. }), "{error}");
    for row in 500..532 {
        let hits = index.search(&vector(row, 1e-6), &params(40), None).unwrap().hits;
        assert_eq!(hits[0].row, RowId(row));
    }
}

#[test]
fn codes_of_any_scale_take_rows_of_all_lengths() {
    let place = built_of(&alike(10), DIM, VectorType::F32, Metric::L2);
    let bytes = alike(500);
    let set = VectorSet::new(&bytes, DIM, VectorType::F32).unwrap();
    let mut options = BuildOptions { overwrite: true, ..BuildOptions::new(Metric::L2) };
    (options.graph.degree, options.graph.list, options.graph.threads) = (24, 48, 1);
    options.any_scale = true;
    build(set, &place.path, &options, &Silent, &false.into()).unwrap();
    let index = live(&place.path);
    let norm = |row: u64| 10f64.powi(row as i32 % 25 - 6);
    for row in 500..1_000 {
        index.insert(RowId(row), &vector(row, norm(row))).unwrap();
    }
    let itself = |row: &u64| {
        let hits = index.search(&vector(*row, norm(*row)), &params(40), None).unwrap().hits;
        hits[0].row == RowId(*row)
    };
    let found = (500..1_000).filter(itself).count();
    assert!(found >= 495, "{found} of 500 find themselves");
}
