//! Rows replaced, and rows of other clusters.

use serde_json::Value;

use crate::data::{DIM, Place, clustered, u8bin};

/// An index of the first 2,000 of 6,000 rows.
fn place() -> Place {
    let place = Place::new(2000);
    place.build();
    place.write("all.u8bin", &u8bin(6000, DIM, &clustered(6000, 1)));
    place
}

fn best_recall(row: &Value) -> f64 {
    let curve = row["curve"].as_array().expect("a curve");
    curve.last().and_then(|point| point["recall"].as_f64()).expect("a recall")
}

const LISTS: &str = "--queries query.u8bin --buffered --list 20,60";

#[test]
fn all_rows_are_replaced_by_the_same_and_by_other_vectors() {
    for (by, part) in [("same", 0), ("other", 1)] {
        let place = place();
        let line = format!(
            "updates churn --index index --base all.u8bin {LISTS} --by {by} --step 0.1 --times 1"
        );
        let row = place.json(&line).remove(0);
        assert_eq!((&row["part"], &row["rows"]), (&part.into(), &2000.into()), "{by}");
        assert_eq!(row["load"]["inserted"], 2000);
        assert!(row["load"]["rewrites"].as_u64() > Some(3), "{row}");
        assert!(best_recall(&row) > 0.95, "{row}");
        let inspected = place.json("inspect --index index").remove(0);
        assert_eq!(inspected["rows"], 2000, "{by}");
    }
}

#[test]
fn a_split_puts_whole_clusters_first_and_drift_inserts_the_rest() {
    let place = place();
    let split = "updates split --base all.u8bin --rows 4000 --first 1000 --out split.u8bin";
    assert_eq!(place.json(split).remove(0)["rows"], 4000);
    let sorted = |bytes: &[u8]| {
        let mut rows: Vec<Vec<u8>> = bytes.chunks(DIM).map(<[u8]>::to_vec).collect();
        rows.sort();
        rows
    };
    let out = std::fs::read(place.path("split.u8bin")).unwrap();
    assert_eq!(sorted(&out[8..]), sorted(&clustered(6000, 1)[..4000 * DIM]), "the same rows");
    place.write("first.u8bin", &u8bin(1000, DIM, &out[8..][..1000 * DIM]));
    place.json("build --base first.u8bin --index first --metric l2 --degree 24 --list 48");
    place.json("gt --base split.u8bin --queries query.u8bin --k 10 --metric l2 --out of-split.bin");
    let line = format!(
        "updates drift --index first --base split.u8bin --truth of-split.bin {LISTS} --step 500"
    );
    let row = place.json(&line).remove(0);
    assert_eq!((&row["first"], &row["rows"]), (&1000.into(), &4000.into()));
    assert!(best_recall(&row) > 0.95, "{row}");
    let again = place.refusal(&line);
    assert!(again.contains("split.u8bin has no rows behind those in the index"), "{again}");
}

#[test]
fn a_base_that_is_smaller_than_the_index_is_refused() {
    let place = place();
    place.write("few.u8bin", &u8bin(100, DIM, &clustered(100, 1)));
    let line = format!("updates churn --index index --base few.u8bin {LISTS} --by other --times 1");
    let error = place.refusal(&line);
    assert!(error.contains("few.u8bin must hold the index's rows"), "{error}");
}
