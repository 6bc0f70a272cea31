//! The power goes at every single operation of a load on log and catalogue: each time the database
//! opens again, with all that was answered and nothing that was deleted.
//!
//! Rows and vectors come from the log each time, so what is looked at are the log, the catalogue,
//! the file of live rows, and the order in which they are written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pipeann_db::catalog::NewCollection;
use pipeann_db::database::Database;
use pipeann_db::disk::{CrashDisk, FaultKind, PlannedFault, PowerCut};

use crate::data::{batch, keys, options, rows, schema};

/// What was answered, and what the write under way may have made of it.
#[derive(Clone, Debug, Default)]
struct Expected {
    /// Whether the collection was there for certain.
    created: bool,
    answered: BTreeMap<i64, u32>,
    /// As `answered`, if the write that failed had come through.
    maybe: Option<BTreeMap<i64, u32>>,
}

/// A write and what it makes of the rows; whether it was answered.
type Step<'a> = dyn Fn(&mut BTreeMap<i64, u32>) -> bool + 'a;

fn open(disk: &CrashDisk, files: &Path) -> Result<Database, String> {
    let mut options = options();
    options.collection.log.segment_bytes = 2048;
    let disk = Arc::new(disk.clone());
    Database::open_simulated(disk, files.to_owned(), options).map_err(|e| e.to_string())
}

/// Works until it is done or something fails.
fn load(disk: &CrashDisk, files: &Path) -> Expected {
    let mut expected = Expected::default();
    let Ok(database) = open(disk, files) else { return expected };
    let created = database.create_collection("default", "c", NewCollection::new(schema()));
    let Ok(c) = created else { return expected };
    expected.created = true;
    for round in 0..6_i64 {
        let seed = round as u32 * 10;
        let steps: [&Step<'_>; 4] = [
            &|model| {
                model.extend([(round, seed), (round + 100, seed + 1)]);
                c.insert(batch(&[(round, seed), (round + 100, seed + 1)]), None).is_ok()
            },
            &|model| {
                model.insert(100, seed + 2);
                c.upsert(batch(&[(100, seed + 2)]), None).is_ok()
            },
            &|model| {
                model.remove(&(round - 1));
                c.delete(&keys(&[round - 1])).is_ok()
            },
            &|_| round % 2 == 0 || c.flush().is_ok(),
        ];
        for step in steps {
            let mut after = expected.answered.clone();
            if !step(&mut after) {
                expected.maybe = Some(after);
                return expected;
            }
            expected.answered = after;
        }
    }
    expected
}

fn check(disk: &CrashDisk, files: &Path, expected: &Expected, what: &str) {
    let database = open(disk, files).unwrap_or_else(|e| panic!("{what}: {e}"));
    let c = match database.collection("default", "c") {
        Ok(c) => c,
        Err(e) => {
            assert!(!expected.created, "{what}: the collection is lost: {e}");
            return;
        }
    };
    let found = rows(&c);
    let count = found.len();
    let found: BTreeMap<i64, u32> = found.into_iter().collect();
    assert_eq!(found.len(), count, "{what}: a key comes twice");
    let fits = found == expected.answered || expected.maybe.as_ref() == Some(&found);
    assert!(fits, "{what}: found {found:?}, expected {expected:?}");
    assert_eq!(c.verify().unwrap(), [], "{what}");
    c.insert(batch(&[(9999, 1)]), None).unwrap();
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing_that_was_answered() {
    let files = tempfile::tempdir().unwrap();
    let whole = CrashDisk::new();
    let done = load(&whole, &files.path().join("whole"));
    assert!(done.maybe.is_none() && done.answered.len() > 6, "the load comes to its end: {done:?}");
    let operations = whole.operations();
    assert!(operations > 80, "{operations} operations");
    for operation in 1..=operations {
        let dir = files.path().join(operation.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        let disk = CrashDisk::new();
        disk.inject(PlannedFault { operation, kind: FaultKind::PowerOff });
        let expected = load(&disk, &dir.join("load"));
        for (i, cut) in
            [PowerCut::Drop, PowerCut::Keep, PowerCut::Torn(operation)].into_iter().enumerate()
        {
            let what = format!("operation {operation}, {cut:?}");
            check(&disk.after(cut), &dir.join(i.to_string()), &expected, &what);
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
