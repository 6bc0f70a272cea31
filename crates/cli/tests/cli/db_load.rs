//! `pipeann db load`: files of vectors into a collection, once, and on from where it was.

use crate::data::{DIM, Place, clustered, u8bin};

fn place() -> Place {
    let place = Place::new(0);
    for (name, seed) in [("a.u8bin", 1), ("b.u8bin", 2)] {
        place.write(name, &u8bin(3000, DIM, &clustered(3000, seed)));
    }
    place
}

#[test]
fn files_are_loaded_once_each_with_keys_that_count_on() {
    let place = place();
    let line = "db load d c a.u8bin b.u8bin --create l2 --no-index";
    let reports = place.json(line);
    assert_eq!(reports.len(), 2);
    for report in &reports {
        assert_eq!((report["rows"].as_u64(), report["resumed_at"].as_u64()), (Some(3000), Some(0)));
        assert!(report["rows_per_s"].as_f64().unwrap() > 0.0);
    }
    for report in place.json(line) {
        assert_eq!(report["resumed_at"].as_u64(), Some(3000), "it was there already");
    }
    let more = place.json("db load d c a.u8bin --first-key 6000 --no-index");
    assert_eq!(more[0]["resumed_at"].as_u64(), Some(0), "other keys make another load");
    let again = place.run("db load d c a.u8bin --first-key 6000 --no-index");
    let told = String::from_utf8(again.stdout).unwrap();
    assert!(
        told.contains("of which 3,000 were loaded before") && told.contains("--name"),
        "{told}"
    );
    let named = place.json("db load d c a.u8bin b.u8bin --name again --no-index");
    assert!(named.iter().all(|report| report["resumed_at"].as_u64() == Some(0)), "{named:?}");
    let refusal = place.refusal("db load d c b.u8bin --name again.1 --no-index");
    assert!(refusal.contains("again.1"), "the name is of another file: {refusal}");
    let estimate = place.run("db load d c a.u8bin --first-key 9000 --no-index");
    let told = String::from_utf8(estimate.stderr).unwrap();
    assert!(told.contains("loading a.u8bin: 3,000 rows, about "), "{told}");
    assert!(told.contains("then the index of `vector`: about "), "{told}");
}

#[test]
fn what_was_loaded_before_is_not_reckoned_again_and_its_index_is_built() {
    let place = place();
    let estimates = |line: &str| {
        let out = place.run(line);
        assert!(out.status.success(), "{out:?}");
        let told = String::from_utf8(out.stderr).unwrap();
        told.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let first = estimates("db load d c a.u8bin --create l2 --no-index");
    let line = "db load d c a.u8bin";
    let again = estimates(&format!("{line} --no-index"));
    let there = "loading a.u8bin: 0 of 3,000 rows, the others were loaded before, about 0.0 s";
    assert!(again[0].starts_with(there), "{again:?}");
    assert!(first[1].starts_with("then the index of `vector`: about "), "{first:?}");
    assert_eq!(again[1], first[1], "the index is of as many rows");
    let report = place.json(line).remove(0);
    assert_eq!((&report["resumed_at"], &report["indexes"][0]), (&3000.into(), &"vector".into()));
}

#[test]
fn what_cannot_be_loaded_is_refused() {
    let place = place();
    assert!(place.refusal("db load d c a.u8bin").contains("no database"));
    place.run("db load d c a.u8bin --create l2 --no-index");
    assert!(place.refusal("db load d other a.u8bin").contains("collection=other"));
    let refusal = place.refusal("db load d c a.u8bin --field nothing --first-key 7000");
    assert!(refusal.contains("no field `nothing`"), "{refusal}");
    place.write("wide.u8bin", &u8bin(2, DIM + 1, &[0; 2 * DIM + 2]));
    let refusal = place.refusal("db load d c wide.u8bin");
    assert!(
        refusal.contains("wide.u8bin") && refusal.contains(&format!("vectors of {}", DIM + 1)),
        "{refusal}"
    );
    place.write("float.fbin", &u8bin(2, DIM, &[0; 2 * 4 * DIM]));
    let refusal = place.refusal("db load d c float.fbin");
    assert!(refusal.starts_with("pipeann: float.fbin: field `vector` is "), "{refusal}");
    assert_eq!(refusal.matches("was given").count(), 1, "it is told once: {refusal}");
    place.write("short.u8bin", &u8bin(20, DIM, &[0; 17]));
    let refusal = place.refusal("db load d c short.u8bin");
    assert!(refusal.contains("the file has 25 bytes"), "{refusal}");
}
