//! Every file with bits flipped, cut short, or gone: an error that names it, never another row.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::flat::FlatError;
use crate::flat::manifest::{SegmentsManifest, VectorSegmentEntry};
use crate::ids::ErrorClass;

fn sample(dir: &Path) -> (Vec<PathBuf>, Vec<Batch>) {
    let (log, flat) = (log(12, 1000), open(dir));
    replay(&flat, &log[..9]);
    flat.flush().unwrap();
    replay(&flat, &log);
    flat.flush().unwrap();
    assert_holds(&flat, &log);
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|file| !file.ends_with("LOCK"));
    files.sort();
    assert_eq!(files.len(), 3, "FLAT and two segments");
    (files, log)
}

/// Opens and reads everything.
fn read_all(dir: &Path) -> Result<Batch, FlatError> {
    let flat = FlatVectors::open(dir, &options())?;
    let search = FlatSearch {
        k: 1,
        metric: Metric::L2,
        within: DistanceRange::default(),
        threads: 2,
        from: RowId(0),
    };
    flat.search(set(&[0; DIM]), search, &|_| true)?;
    let mut found = Vec::new();
    flat.scan(|rows, vectors| {
        found.extend(
            rows.iter().enumerate().map(|(i, r)| (r.0, vectors.row(i).try_into().unwrap())),
        );
        Ok::<(), FlatError>(())
    })?;
    Ok(found)
}

fn assert_refused(dir: &Path, file: &Path, damage: &str) {
    let error = read_all(dir).err().unwrap_or_else(|| panic!("{damage}: not found"));
    let file = file.file_name().unwrap().to_str().unwrap();
    assert!(error.to_string().contains(file), "{damage}: {error}");
    assert_eq!(error.class(), ErrorClass::Stop, "{damage}: {error}");
}

#[test]
fn a_flipped_bit_is_refused_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (files, log) = sample(dir.path());
    for file in &files {
        let mut bytes = fs::read(file).unwrap();
        for at in (0..bytes.len()).step_by((bytes.len() / 50).max(1)) {
            bytes[at] ^= 1 << (at % 8);
            fs::write(file, &bytes).unwrap();
            assert_refused(dir.path(), file, &format!("byte {at} of {}", file.display()));
            bytes[at] ^= 1 << (at % 8);
        }
        fs::write(file, &bytes).unwrap();
    }
    assert_eq!(read_all(dir.path()).unwrap(), log.concat());
}

#[test]
fn a_file_cut_short_or_longer_or_gone_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (files, log) = sample(dir.path());
    for file in &files {
        let whole = fs::read(file).unwrap();
        let longer = [&whole[..], &[0]].concat();
        for bytes in [&[][..], &whole[..whole.len() / 2], &whole[..whole.len() - 1], &longer] {
            fs::write(file, bytes).unwrap();
            let damage = format!("{} with {} bytes", file.display(), bytes.len());
            assert_refused(dir.path(), file, &damage);
        }
        fs::write(file, &whole).unwrap();
    }
    fs::remove_file(&files[1]).unwrap();
    assert_refused(dir.path(), &files[1], "a segment removed");
    fs::remove_file(&files[0]).unwrap();
    let error = read_all(dir.path()).unwrap_err();
    assert!(matches!(error, FlatError::NoStore { .. }), "{error}");
    assert!(!log.is_empty());
}

#[test]
fn intact_blocks_in_another_place_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (files, _) = sample(dir.path());
    let whole = fs::read(&files[1]).unwrap();
    let mut swapped = whole.clone();
    swapped[..64 << 10].copy_from_slice(&whole[64 << 10..128 << 10]);
    fs::write(&files[1], &swapped).unwrap();
    let error = read_all(dir.path()).unwrap_err().to_string();
    assert!(error.contains("block 0 of segment 1 is block 1 of segment 1"), "{error}");
}

#[test]
fn a_list_of_impossible_segments_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let whole = SegmentsManifest::read(dir.path()).unwrap().unwrap();
    for (number, rows) in [(1, u64::MAX), (1, 1 << 50), (1, 0), (1, 8999), (7, 9000), (u64::MAX, 1)]
    {
        let segments = vec![VectorSegmentEntry { number, rows }];
        SegmentsManifest { segments, ..whole.clone() }.write(dir.path()).unwrap();
        let error = read_all(dir.path()).unwrap_err();
        assert!(matches!(error, FlatError::Damaged { .. }), "{number}, {rows}: {error}");
    }
}
