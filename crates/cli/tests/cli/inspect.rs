//! Inspection, and that verification finds flipped bits.

use std::path::{Path, PathBuf};

use crate::data::{Place, text};

#[test]
fn layout_degrees_and_memory_are_shown() {
    let place = Place::new(3000);
    place.build();
    let row = place.json("inspect --index index --buffered").remove(0);
    assert_eq!((&row["rows"], &row["metric"]), (&3000.into(), &"l2".into()));
    assert!(row["degree_max"].as_u64().unwrap() <= 24);
    assert!(row["page_fill"].as_f64().unwrap() > 0.8);
    assert!(row["memory_floor"]["codes"].as_u64().unwrap() >= 3000 * 12);
    assert!(row["damage"].is_null());
    let shown = text(&place.run("inspect --index index --verify --buffered").stdout);
    for part in ["vectors", "3,000 x 24 u8, l2", "page fill", "memory", "codes-1", "no damage"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

/// All files below `dir`.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { out.extend(files(&path)) } else { out.push(path) }
    }
    out
}

#[test]
fn a_flipped_bit_in_any_file_is_found_and_the_file_named() {
    let place = Place::new(1500);
    place.build();
    place.json("inspect --index index --verify --buffered");
    let mut looked_at = 0;
    for file in files(&place.path("index")) {
        let sound = std::fs::read(&file).unwrap();
        if sound.is_empty() {
            continue;
        }
        let name = file.file_name().unwrap().to_str().unwrap();
        // Files that are read block by block end in padding, which means nothing.
        let blocks = name.starts_with("codes") || name.starts_with("rows");
        let last = if blocks { sound.len() / 3 } else { sound.len() - 1 };
        for at in [0, sound.len() / 3, last] {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&file, &damaged).unwrap();
            let out = place.run("inspect --index index --verify --buffered");
            let told = text(&out.stdout) + &text(&out.stderr);
            assert_eq!(out.status.code(), Some(1), "{name} at {at}: {told}");
            assert!(told.contains(name), "{name} at {at}: {told}");
        }
        std::fs::write(&file, &sound).unwrap();
        looked_at += 1;
    }
    assert!(looked_at >= 6, "{looked_at} files");
    place.json("inspect --index index --verify --buffered");
}

#[test]
fn all_damaged_pages_are_listed() {
    let place = Place::new(3000);
    place.build();
    let file = files(&place.path("index"));
    let pages = file.iter().find(|f| f.extension().is_some_and(|e| e == "pages")).unwrap();
    let mut bytes = std::fs::read(pages).unwrap();
    for page in [1, 5, 9] {
        bytes[page * 4096 + 100] ^= 1;
    }
    std::fs::write(pages, bytes).unwrap();
    let out = place.run("inspect --index index --verify --buffered --json");
    assert_eq!(out.status.code(), Some(1));
    let row: serde_json::Value = serde_json::from_str(text(&out.stdout).trim()).unwrap();
    let damage: Vec<&str> =
        row["damage"].as_array().unwrap().iter().map(|d| d.as_str().unwrap()).collect();
    for offset in [4096, 5 * 4096, 9 * 4096] {
        let named = |d: &&str| d.contains(&format!("at byte {offset}"));
        assert!(damage.iter().any(named), "{offset} in {damage:?}");
    }
}
