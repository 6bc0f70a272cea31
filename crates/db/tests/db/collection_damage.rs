//! Every file of a database with bits flipped, cut short, gone, taken from another database, or
//! of a newer version: a typed error that names it, a repair, or no difference. Never another
//! answer, and never a panic.

use std::fs;
use std::path::{Path, PathBuf};

use pipeann_db::catalog::UnixMs;
use pipeann_db::collection::{CollectionError, RowQuery};
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::ids::ErrorClass;
use pipeann_db::scalar::Condition;

use crate::data::{FIELDS, batch, collection, create, keys, options, rows, search_by, vector};

/// Small segments of the log; created at `now`, which makes another identity.
fn settings(now: u64) -> DatabaseOptions {
    let mut settings =
        DatabaseOptions { now: std::sync::Arc::new(move || UnixMs(now)), ..options() };
    settings.collection.log.segment_bytes = 2048;
    settings
}

/// A database whose row store and vectors have come half-way, and whose log has many segments.
/// Another `now` makes the same files with other rows in them.
fn make(dir: &Path, now: u64) {
    let database = Database::open(dir, settings(now)).unwrap();
    let c = create(&database);
    let seed = |key: i64| key as u32 + now as u32;
    let some = |from: i64| (from..from + 40).map(|key| (key, seed(key))).collect::<Vec<_>>();
    for from in [0, 100] {
        c.insert(batch(&some(from)), None).unwrap();
        c.delete(&keys(&[from + 1, from + 2])).unwrap();
        c.flush().unwrap();
    }
    for key in 200..240 {
        c.upsert(batch(&[(key - 100, 7), (key, 8)]), None).unwrap();
    }
}

/// All files but locks, by path inside the directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.ends_with("LOCK") => {}
                false => files.push(path.strip_prefix(dir).unwrap().to_owned()),
            }
        }
    }
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        fs::create_dir_all(to.join(&file).parent().unwrap()).unwrap();
        fs::copy(from.join(&file), to.join(&file)).unwrap();
    }
}

/// What a database answers, in every way of asking, or what it says instead.
fn answer(dir: &Path) -> Result<Vec<(i64, u32)>, (String, ErrorClass)> {
    let database = Database::open(dir, settings(1)).map_err(|e| (e.to_string(), e.class()))?;
    let c = collection(&database);
    let told = |e: CollectionError| (e.to_string(), e.class());
    let query = RowQuery { fields: FIELDS, ..RowQuery::default() };
    c.query(&query).map_err(told)?;
    let found = rows(&c);
    let hits = search_by(&c, 5, vector(8));
    assert!(hits.iter().all(|hit| found.iter().any(|row| hit.row.key == keys(&[row.0])[0])));
    assert_eq!(c.count(None).unwrap(), found.len() as u64);
    let scalars = c.scalar_moment().unwrap();
    let noted = Condition::StartsWith("note ".into());
    let noted = scalars.postings(&scalars.predicate("note", &noted).unwrap());
    let noted = noted.map_err(|e| (e.to_string(), e.class()))?;
    assert_eq!(noted.rows, *scalars.live(), "all rows have a note");
    match c.verify().map_err(told)?.first() {
        Some(finding) => Err((finding.what.clone(), ErrorClass::Stop)),
        None => Ok(found),
    }
}

/// A template, and what damaged copies of it answer.
struct Damaged {
    home: tempfile::TempDir,
    whole: Vec<(i64, u32)>,
}

impl Damaged {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        make(&home.path().join("good"), 1_000);
        copy(&home.path().join("good"), &home.path().join("whole"));
        let whole = answer(&home.path().join("whole")).unwrap();
        assert_eq!(whole.len(), 118, "{whole:?}");
        Self { home, whole }
    }

    fn good(&self) -> PathBuf {
        self.home.path().join("good")
    }

    /// Fails unless a copy with these bytes in `file` says what is wrong with it, or answers as
    /// the whole one. Whether it said so.
    fn is_refused(&self, file: &Path, bytes: Option<&[u8]>, damage: &str) -> bool {
        let at = self.home.path().join("damaged");
        copy(&self.good(), &at);
        match bytes {
            None => fs::remove_file(at.join(file)).unwrap(),
            Some(bytes) => fs::write(at.join(file), bytes).unwrap(),
        }
        let answered = answer(&at);
        fs::remove_dir_all(&at).unwrap();
        let damage = format!("{} {damage}", file.display());
        match answered {
            Ok(found) => {
                assert_eq!(found, self.whole, "{damage}: other rows");
                false
            }
            Err((said, class)) => {
                assert!(names(&said, file), "{damage}: {said}");
                assert_ne!(class, ErrorClass::Retry, "{damage}: {said}");
                true
            }
        }
    }

    /// Whether this is the newest segment of the log.
    fn is_log_end(&self, file: &Path) -> bool {
        let logs = files(&self.good()).into_iter().filter(|f| f.extension().is_some());
        logs.max().as_deref() == Some(file)
    }
}

/// Whether a message names the file, or the store or log that it is a part of.
fn names(said: &str, file: &Path) -> bool {
    let file = file.display().to_string();
    let store = file.split_once("/rows/").map(|(dir, _)| format!("{dir}/rows"));
    let table = file.split_once("/rows/").map(|(_, table)| table.to_owned());
    let log = file.split_once("/wal/").map(|_| "the log begins with record".to_owned());
    let gone = (file == "CATALOG").then(|| "it has no CATALOG".to_owned());
    // Another catalogue is intact; the files of the collection do not belong to it.
    let other = (file == "CATALOG").then(|| "belongs to collection".to_owned());
    let vectors = file.strip_suffix("FLAT").map(|dir| dir.trim_end_matches('/').to_owned());
    // The next segment of the log tells that one is missing before it.
    let gap = file.split_once("/wal/").map(|(dir, _)| format!("{dir}/wal/"));
    [Some(file.clone()), store, table, log, gone, other, vectors, gap]
        .into_iter()
        .flatten()
        .any(|name| said.contains(&name))
}

#[test]
fn a_flipped_bit_in_any_file_is_refused_or_makes_no_difference() {
    let damaged = Damaged::new();
    for file in files(&damaged.good()) {
        let whole = fs::read(damaged.good().join(&file)).unwrap();
        let (mut tried, mut refused) = (0, 0);
        for at in (0..whole.len()).step_by((whole.len() / 9).max(1)) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            tried += 1;
            let damage = format!("with a bit of byte {at} flipped");
            refused += usize::from(damaged.is_refused(&file, Some(&bytes), &damage));
        }
        // Only old versions of a tree, some bytes of tables, and what is made anew do not matter.
        let derived = file.ends_with("LIVE")
            || file.ends_with("NEWEST")
            || file.starts_with("collections") && (is_in("rows", &file) || is_in("scalars", &file));
        assert!(derived || refused + 1 >= tried, "{}: {refused} of {tried}", file.display());
    }
}

fn is_in(component: &str, file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == component)
}

#[test]
fn a_file_that_is_cut_short_or_gone_is_refused_or_makes_no_difference() {
    let damaged = Damaged::new();
    for file in files(&damaged.good()) {
        let whole = fs::read(damaged.good().join(&file)).unwrap();
        for bytes in [0, whole.len() / 2, whole.len() - 1] {
            // The end of the log, cut off, looks like a write that a crash interrupted.
            if bytes == 0 || !damaged.is_log_end(&file) {
                damaged.is_refused(&file, Some(&whole[..bytes]), &format!("cut to {bytes} bytes"));
            }
        }
        damaged.is_refused(&file, None, "removed");
    }
}

#[test]
fn the_same_file_of_another_database_is_refused_or_made_anew() {
    let damaged = Damaged::new();
    let other = damaged.home.path().join("other");
    make(&other, 2_000);
    let mut refused = 0;
    // Tables of the row store carry no identity: a known gap, see decision 0012.
    let is_table = |file: &Path| file.components().any(|part| part.as_os_str() == "tables");
    for file in files(&damaged.good()).into_iter().filter(|file| !is_table(file)) {
        let Ok(foreign) = fs::read(other.join(&file)) else { continue };
        refused += usize::from(damaged.is_refused(&file, Some(&foreign), "of another database"));
    }
    assert!(refused >= 8, "{refused} files were refused");
}

/// The bytes with a version that nobody knows yet, and checksums that fit it.
fn of_a_newer_version(file: &Path, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let name = file.file_name()?.to_str()?;
    let covered = match name {
        "CATALOG" | "LIVE" => bytes.len() - 8,
        "STATE" | "FLAT" => 72,
        _ if name.ends_with(".wal") => 56,
        _ => return None,
    };
    bytes[8..12].copy_from_slice(&99_u32.to_le_bytes());
    let sum = crc_fast::crc64_nvme(&bytes[..covered]);
    bytes[covered..covered + 8].copy_from_slice(&sum.to_le_bytes());
    Some(bytes)
}

#[test]
fn a_newer_version_of_any_file_is_refused_by_its_number_or_made_anew() {
    let damaged = Damaged::new();
    let mut kinds = 0;
    for file in files(&damaged.good()) {
        let bytes = fs::read(damaged.good().join(&file)).unwrap();
        let Some(newer) = of_a_newer_version(&file, bytes) else { continue };
        kinds += 1;
        let refused = damaged.is_refused(&file, Some(&newer), "of version 99");
        assert!(refused || file.ends_with("LIVE"), "{}", file.display());
    }
    assert!(kinds > 8, "{kinds} files have versions");
}
