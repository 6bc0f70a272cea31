//! Conversions there and back.

use crate::data::Place;

#[test]
fn every_format_comes_back_unchanged() {
    let place = Place::new(300);
    let original = std::fs::read(place.path("base.u8bin")).unwrap();
    for chain in [
        &["a.bvecs", "b.u8bin"][..],
        &["a.npy", "b.u8bin"],
        &["a.fbin", "b.fvecs", "c.npy", "d.fbin", "e.u8bin"],
    ] {
        let mut from = "base.u8bin";
        for to in chain {
            let told = place.json(&format!("convert --in {from} --out {to}"));
            assert_eq!((&told[0]["rows"], &told[0]["dim"]), (&300.into(), &24.into()));
            from = to;
        }
        assert!(std::fs::read(place.path(from)).unwrap() == original, "{chain:?}");
    }
}

#[test]
fn the_first_rows_alone() {
    let place = Place::new(300);
    place.json("convert --in base.u8bin --out first.u8bin --rows 5");
    let (all, first) = ("base.u8bin", "first.u8bin");
    let read = |name| std::fs::read(place.path(name)).unwrap();
    assert_eq!(read(first)[..4], [5, 0, 0, 0]);
    assert_eq!(read(first)[8..], read(all)[8..8 + 5 * 24]);
}

#[test]
fn truth_ids_go_to_ivecs_and_back() {
    let place = Place::new(300);
    place.truth();
    place.json("convert --in truth.bin --out ids.ivecs");
    place.json("convert --in ids.ivecs --out ids.bin");
    let read = |name| std::fs::read(place.path(name)).unwrap();
    let ids = 8 + 50 * 20 * 4;
    assert_eq!(read("ids.bin")[..ids], read("truth.bin")[..ids]);
    place.build();
    let line = "search --index index --queries query.u8bin --list 60 --buffered --truth";
    for truth in ["ids.ivecs", "ids.bin", "truth.bin"] {
        assert!(place.json(&format!("{line} {truth}"))[0]["recall"].as_f64().unwrap() > 0.9);
    }
}

#[test]
fn what_would_lose_something_is_refused() {
    let place = Place::new(10);
    let half = [2.0f32, 0.5].map(f32::to_le_bytes).concat();
    place.write("half.fbin", &crate::data::u8bin(1, 2, &half));
    let refused = place.refusal("convert --in half.fbin --out half.u8bin");
    assert!(refused.contains("half.fbin") && refused.contains("0.5"), "{refused}");
    assert!(!place.path("half.u8bin").exists());
    assert_eq!(crate::names::names(place.dir.path()), ["base.u8bin", "half.fbin", "query.u8bin"]);
    let refused = place.refusal("convert --in base.u8bin --out base.i8bin");
    assert!(refused.contains("row 0 holds 128, which is no i8"), "{refused}");
    assert!(!place.path("base.i8bin").exists());
}
