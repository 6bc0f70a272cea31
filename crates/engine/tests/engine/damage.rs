//! Bad files: each has a clear error that names the file, and never a wrong answer.

use std::fs;
use std::path::{Path, PathBuf};

use pipeann_engine::build::BuildOptions;
use pipeann_engine::index::{BatchOptions, Index, OpenError};
use pipeann_engine::search::SearchParams;
use pipeann_engine::types::{ErrorClass, Metric, VectorType};

use crate::data::{Vectors, build_in, clustered, open, open_options, options};

fn built(rows: usize) -> (tempfile::TempDir, PathBuf, Vectors) {
    let base = clustered(rows, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    (dir, path, base)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { out.extend(files(&path)) } else { out.push(path) }
    }
    out.sort();
    out
}

fn refusal(path: &Path) -> OpenError {
    match Index::open(path, &open_options()) {
        Ok(_) => panic!("{} opened", path.display()),
        Err(e) => e,
    }
}

#[test]
fn a_directory_without_an_index_says_so() {
    let dir = tempfile::tempdir().unwrap();
    assert!(refusal(dir.path()).to_string().contains("holds no index"));
    assert!(refusal(&dir.path().join("missing")).to_string().contains("holds no index"));
}

#[test]
fn a_truncated_or_missing_file_is_named_on_opening() {
    let (_dir, path, _) = built(500);
    let all = files(&path);
    assert!(all.len() >= 7, "{all:?}");
    for file in all {
        let bytes = fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        for keep in [0, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&file, &bytes[..keep]).unwrap();
            let message = refusal(&path).to_string();
            assert!(message.contains(name), "{keep} bytes of {name}: {message}");
        }
        fs::remove_file(&file).unwrap();
        let message = refusal(&path).to_string();
        assert!(message.contains(name) || name == "MANIFEST", "{message}");
        fs::write(&file, &bytes).unwrap();
    }
    open(&path);
}

#[test]
fn a_flipped_bit_anywhere_is_found_and_named() {
    let (_dir, path, base) = built(500);
    for file in files(&path) {
        let bytes = fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        for at in [0, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            fs::write(&file, &bad).unwrap();
            let found = match Index::open(&path, &open_options()) {
                Err(e) => {
                    assert!(e.class() != ErrorClass::Retry);
                    e.to_string()
                }
                Ok(index) => {
                    let report = index.verify(&mut |_| {}).unwrap();
                    let damage = report.damage.iter().map(|d| d.0.as_str());
                    damage.collect::<Vec<_>>().join("\n")
                }
            };
            let padding = bytes[at] == 0 && found.is_empty();
            assert!(padding || found.contains(&name), "byte {at} of {name}: `{found}`");
            fs::write(&file, &bytes).unwrap();
        }
    }
    let index = open(&path);
    assert!(index.verify(&mut |_| {}).unwrap().damage.is_empty());
    assert_eq!(
        index.search(base.set().row(5), &SearchParams::default(), None).unwrap().hits[0].row.0,
        5
    );
}

#[test]
fn a_damaged_page_fails_the_queries_that_need_it_and_no_other() {
    let (_dir, path, base) = built(2000);
    let segment = files(&path).into_iter().find(|f| f.extension().is_some_and(|e| e == "pages"));
    let segment = segment.unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let page_bytes = open(&path).layout().page_bytes();
    let page = bytes.len() / page_bytes / 2;
    bytes[page * page_bytes + 700] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    let index = open(&path);
    let params = SearchParams { k: 1, list: 4, ..Default::default() };
    let (mut good, mut bad) = (0, Vec::new());
    for row in 0..base.set().rows() {
        match index.search(base.set().row(row), &params, None) {
            Ok(_) => good += 1,
            Err(e) => bad.push(e.to_string()),
        }
    }
    assert!(good > 1000 && !bad.is_empty(), "{good} good, {} bad", bad.len());
    for message in bad {
        assert!(
            message.contains("segment") && message.contains(&format!("page {page}")),
            "{message}"
        );
    }
    let batch = index.search_batch(base.set(), &params, &BatchOptions::default());
    assert!(batch.is_err(), "a batch reports the damage");
}

#[test]
fn a_page_of_another_index_or_place_is_refused() {
    let (_dir, path, _) = built(500);
    let segment = files(&path).into_iter().find(|f| f.extension().is_some_and(|e| e == "pages"));
    let segment = segment.unwrap();
    let page_bytes = open(&path).layout().page_bytes();
    let good = fs::read(&segment).unwrap();
    let mut swapped = good.clone();
    swapped.copy_within(page_bytes..2 * page_bytes, 0);
    fs::write(&segment, &swapped).unwrap();
    let damage = open(&path).verify(&mut |_| {}).unwrap().damage;
    assert!(damage.iter().any(|d| d.0.contains("page")), "{damage:?}");
    let (_other_dir, other, _) = built(500);
    let foreign = files(&other).into_iter().find(|f| f.extension().is_some_and(|e| e == "pages"));
    fs::copy(foreign.unwrap(), &segment).unwrap();
    assert!(!open(&path).verify(&mut |_| {}).unwrap().damage.is_empty());
}

#[test]
fn a_damaged_block_of_a_row_map_is_one_place_and_not_one_for_each_of_its_rows() {
    let base = clustered(5000, 16, VectorType::U8, 1);
    for partitions in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i");
        build_in(&path, &base, &BuildOptions { partitions, ..options(Metric::L2) });
        let map = files(&path).into_iter().find(|f| f.ends_with("part-0000/rows-1")).unwrap();
        let mut bytes = fs::read(&map).unwrap();
        // A page of header, and a block that was sound.
        bytes[2 * 4096 + 100] ^= 1;
        fs::write(&map, &bytes).unwrap();
        let report = open(&path).verify(&mut |_| {}).unwrap();
        let told: Vec<&str> = report.damage.iter().map(|d| d.0.as_str()).collect();
        assert_eq!((told.len(), report.more), (1, 0), "{told:?}");
        assert!(told[0].contains("rows-1"), "{told:?}");
        assert_eq!(report.records, 5000);
    }
}
