//! What a hop from server to server takes.

use serde_json::Value;

use crate::data::{Place, SMALL};

#[test]
fn a_hop_is_measured() {
    let place = Place::new(3000);
    let build = "build --base base.u8bin --index index --metric l2 --partitions 4";
    place.json(&format!("{build} {SMALL}"));
    let line = "hop --index index --buffered --queries query.u8bin --list 20,40 --hops 200";
    let rows = place.json(line);
    let of: Vec<_> = rows.iter().map(|row| row["what"].as_str().unwrap()).collect();
    let expected = [
        "a byte from thread to thread",
        "message, 1 under way",
        "message, 64 under way",
        "waking, list 20",
        "waking, list 40",
    ];
    assert_eq!(of, expected);
    let bytes = |row: &Value| row["state_bytes"].as_u64().unwrap();
    assert!(rows[1..].iter().all(|row| bytes(row) > 200), "{rows:?}");
}
