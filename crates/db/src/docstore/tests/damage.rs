//! Every file of a store with bits flipped, cut short, or gone: an error, never another row.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::docstore::StoreError;
use crate::ids::ErrorClass;

/// A store of several tables, its files, and what it shows.
fn sample(dir: &Path) -> (Vec<PathBuf>, Contents) {
    let store = open(dir);
    let log = Log::mixed(60);
    for upto in [20, 40, 60] {
        Log(log.0[..upto].to_vec()).replay(&store);
        store.flush().unwrap();
    }
    let shown = contents(&*store.snapshot()).unwrap();
    drop(store);
    let mut files = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    assert!(files.iter().filter(|f| f.parent().unwrap().ends_with("tables")).count() >= 6);
    (files, shown)
}

/// Opens and reads everything, each row and each key on its own as well.
fn read_all(dir: &Path) -> Result<Contents, StoreError> {
    let store = LsmRows::open(dir, &options())?;
    let shown = contents(&*store.snapshot())?;
    let rows: Vec<_> = shown.rows.iter().map(|row| row.0).collect();
    store.get(&rows, &mut |i, blob| assert_eq!(blob, Some(&shown.rows[i].3[..])))?;
    for (key, row) in &shown.keys {
        assert!(store.rows_of_key(key)?.contains(row));
    }
    Ok(shown)
}

/// The damage is found, with an error that names the store, or it made no difference.
fn refused_or_same(dir: &Path, shown: &Contents, damage: &str) -> bool {
    match read_all(dir) {
        Ok(found) => {
            assert_eq!(&found, shown, "{damage}: other rows");
            false
        }
        Err(error) => {
            assert!(error.to_string().contains(&dir.display().to_string()), "{damage}: {error}");
            assert_ne!(error.class(), ErrorClass::Retry, "{damage}: {error}");
            true
        }
    }
}

#[test]
fn a_flipped_bit_is_refused_or_makes_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let (files, shown) = sample(dir.path());
    for file in files.iter().filter(|f| !f.ends_with("LOCK")) {
        let whole = fs::read(file).unwrap();
        let step = (whole.len() / 40).max(1);
        let (mut tried, mut found) = (0, 0);
        for at in (0..whole.len()).step_by(step) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(file, &bytes).unwrap();
            let damage = format!("{} with a bit of byte {at} flipped", file.display());
            found += usize::from(refused_or_same(dir.path(), &shown, &damage));
            tried += 1;
        }
        fs::write(file, &whole).unwrap();
        // Some bytes of a table are read by nothing; every byte of the other files matters.
        let needed = if file.parent().unwrap().ends_with("tables") { tried / 2 } else { tried };
        assert!(found >= needed, "{}: {found} of {tried} found", file.display());
    }
    assert_eq!(read_all(dir.path()).unwrap(), shown);
}

#[test]
fn a_file_cut_short_or_gone_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (files, shown) = sample(dir.path());
    for file in files.iter().filter(|f| !f.ends_with("LOCK")) {
        let whole = fs::read(file).unwrap();
        for bytes in [0, whole.len() / 2, whole.len() - 1] {
            fs::write(file, &whole[..bytes]).unwrap();
            let damage = format!("{} cut to {bytes} bytes", file.display());
            assert!(refused_or_same(dir.path(), &shown, &damage), "{damage}: not found");
        }
        fs::remove_file(file).unwrap();
        let damage = format!("{} removed", file.display());
        assert!(refused_or_same(dir.path(), &shown, &damage), "{damage}: not found");
        fs::write(file, &whole).unwrap();
    }
    assert_eq!(read_all(dir.path()).unwrap(), shown);
}

#[test]
fn a_lost_tree_is_not_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for tree in ["rows", "keys"] {
        let aside = dir.path().with_extension("aside");
        fs::rename(dir.path().join(tree), &aside).unwrap();
        let error = read_all(dir.path()).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        fs::rename(&aside, dir.path().join(tree)).unwrap();
    }
    read_all(dir.path()).unwrap();
}

#[test]
fn counters_of_more_rows_than_can_be_counted_are_damage_whatever_their_checksum() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let path = dir.path().join("STATE");
    let mut state = fs::read(&path).unwrap();
    let (header, counts) = state.split_at_mut(80);
    let (each, rest) = counts.as_chunks_mut::<12>();
    assert!(each.len() > 1 && rest.is_empty(), "several partitions are counted");
    each.iter_mut().for_each(|count| count[4..].fill(0xff));
    header[56..64].copy_from_slice(&crc_fast::crc64_nvme(counts).to_le_bytes());
    let sum = crc_fast::crc64_nvme(&header[..72]);
    header[72..].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, state).unwrap();
    let error = LsmRows::open(dir.path(), &options()).err().unwrap();
    assert!(error.to_string().contains("more rows than there are ids"), "{error}");
}
