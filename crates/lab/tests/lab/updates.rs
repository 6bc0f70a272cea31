//! Loads that change an index.

use serde_json::Value;

use crate::data::{DIM, Place, clustered, u8bin};

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"))
}

/// An index of the first 3,000 of 4,000 rows.
fn place() -> Place {
    let place = Place::new(4000);
    place.truth();
    let whole = clustered(4000, 1);
    place.write("all.u8bin", &u8bin(4000, DIM, &whole));
    place.write("base.u8bin", &u8bin(3000, DIM, &whole[..3000 * DIM]));
    place.build();
    place
}

const INSERT: &str = "updates insert --index index --base all.u8bin --buffered";
const SEARCH: &str =
    "search --index index --queries query.u8bin --truth truth.bin --buffered --list 60";

#[test]
fn linked_rows_are_found_and_what_it_took_is_told() {
    let place = place();
    let line = format!("{INSERT} --dirty-rows 400 --queries query.u8bin --alone 0.1");
    let row = place.json(&line).remove(0);
    assert_eq!((&row["rows"], &row["live_rows"]), (&1000.into(), &4000.into()));
    assert_eq!(row["checkpoints"], 3, "two on the way and one at the end");
    let vectors = 1000 * DIM;
    assert!(number(&row, "log_bytes") > vectors as f64);
    assert!(number(&row, "checkpoint_bytes") > vectors as f64);
    assert!(number(&row, "rows_per_s") >= number(&row, "rows_per_s_with_checkpoints"));
    for part in ["search_alone", "search_beside"] {
        assert!(number(&row[part], "queries") > 0.0, "{part}");
        assert!(number(&row[part], "p50_us") <= number(&row[part], "p99_us"), "{part}");
    }
    let found = place.json(SEARCH).remove(0);
    assert!(number(&found, "recall") > 0.95, "{}", found["recall"]);
}

#[test]
fn a_load_that_is_discarded_leaves_the_index_as_it_was() {
    let place = place();
    let before = place.json("inspect --index index").remove(0);
    let row = place.json(&format!("{INSERT} --count 200 --threads 1 --discard")).remove(0);
    assert_eq!((&row["rows"], &row["checkpoints"]), (&200.into(), &0.into()));
    assert_eq!(place.json("inspect --index index").remove(0), before);
}

#[test]
fn rows_that_the_file_does_not_have_are_refused() {
    let place = place();
    let error = place.refusal(&format!("{INSERT} --from 4000"));
    assert!(error.contains("all.u8bin has 4000 rows"), "{error}");
    let error = place.refusal(&format!("{INSERT} --rate 0"));
    assert!(error.contains("--rate"), "{error}");
}
