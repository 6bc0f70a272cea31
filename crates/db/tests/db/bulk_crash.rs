//! Bulk loads that end in a power cut, a kill or for want of disk: begun again, each goes on where it
//! was, and no row is lost or comes twice.

use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_db::bulk::{LoadProgress, LoadWatch, load};
use pipeann_db::catalog::NewCollection;
use pipeann_db::database::Database;
use pipeann_db::disk::{CrashDisk, FaultKind, PlannedFault, PowerCut};

use crate::bulk::{Numbers, expected, run, small};
use crate::data::{batch, create, keys, open, options, rows, schema};

const ROWS: u64 = 12;

fn open_on(disk: &CrashDisk, locks: &Path, name: &str) -> Option<Database> {
    Database::open_simulated(Arc::new(disk.clone()), locks.join(name), options()).ok()
}

/// Loads what is not loaded yet, two rows at a time, and tells where it began; `None` where
/// something failed. A batch that is refused is given once more, which `again` counts where it helps.
fn attempt(disk: &CrashDisk, locks: &Path, name: &str, again: &mut u64) -> Option<u64> {
    let database = open_on(disk, locks, name)?;
    let c = match database.collection("default", "c") {
        Ok(c) => c,
        Err(_) => database.create_collection("default", "c", NewCollection::new(schema())).ok()?,
    };
    let mut load = c.begin_load("numbers", 7).ok()?;
    let resumed_at = load.rows();
    while load.rows() < ROWS {
        let at = load.rows() as i64;
        let some = [(at, at as u32), (at + 1, at as u32 + 1)];
        if load.insert(batch(&some), None).is_err() {
            load.insert(batch(&some), None).ok()?;
            *again += 1;
        }
        if at == 6 {
            c.flush().ok()?;
        }
    }
    load.finish().ok()?;
    assert_eq!(rows(&c), expected(ROWS), "{name}");
    Some(resumed_at)
}

/// Operations of a load that nothing ends.
fn operations(locks: &Path) -> u64 {
    let (disk, mut again) = (CrashDisk::new(), 0);
    assert_eq!((attempt(&disk, locks, "whole", &mut again), again), (Some(0), 0));
    let operations = disk.operations();
    assert!(operations > 60, "{operations} operations");
    operations
}

#[test]
fn a_power_cut_at_any_operation_of_a_load_loses_and_repeats_no_row() {
    let files = tempfile::tempdir().unwrap();
    let locks = files.path();
    let (mut resumed, mut again) = (0, 0);
    let operations = operations(locks);
    for operation in 1..=operations {
        let disk = CrashDisk::new();
        disk.inject(PlannedFault { operation, kind: FaultKind::PowerOff });
        attempt(&disk, locks, &format!("{operation}"), &mut again);
        let cuts = [PowerCut::Drop, PowerCut::Keep, PowerCut::Torn(operation)];
        for (i, cut) in cuts.into_iter().enumerate() {
            let after = disk.after(cut);
            // Somebody else takes the next row id before the load goes on.
            let name = format!("{operation}-{i}");
            let other = open_on(&after, locks, &format!("{name}-other")).unwrap();
            if let Ok(c) = other.collection("default", "c") {
                c.insert(batch(&[(500, 1)]), None).unwrap();
                c.delete(&keys(&[500])).unwrap();
            }
            drop(other);
            let at = attempt(&after, locks, &name, &mut again);
            resumed += u64::from(at.expect("the disk is whole again") > 0);
        }
    }
    assert_eq!(again, 0, "without power nothing is written");
    assert!(resumed > operations, "{resumed} loads went on in the middle");
}

#[test]
fn a_full_disk_at_any_operation_of_a_load_loses_and_repeats_no_row() {
    let files = tempfile::tempdir().unwrap();
    let locks = files.path();
    let (mut reopened, mut again) = (0, 0);
    for operation in 1..=operations(locks) {
        let disk = CrashDisk::new();
        disk.inject(PlannedFault { operation, kind: FaultKind::NoSpace });
        if attempt(&disk, locks, &format!("{operation}"), &mut again).is_none() {
            reopened += 1;
            let at = attempt(&disk, locks, &format!("{operation}-again"), &mut again);
            assert!(at.is_some(), "operation {operation}: there is room again");
        }
        let after = disk.after(PowerCut::Drop);
        let at = attempt(&after, locks, &format!("{operation}-after"), &mut again);
        assert_eq!(at, Some(ROWS), "operation {operation}: the load had ended");
    }
    // The note of each of the six batches: created, written, synced and renamed.
    assert!(again >= 24 && reopened > 0, "{again} went on at once, {reopened} when opened again");
}

#[test]
#[ignore = "runs as the child of `a_killed_load_goes_on_and_repeats_no_row`"]
fn loads_until_killed() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let database = open(line.trim_end().as_ref());
    let c = database.collection("default", "c").unwrap();
    load(&c, &mut Numbers::new(KILLED_ROWS), &small(), &mut Telling(Instant::now())).unwrap();
}

/// Says a line for each batch.
struct Telling(Instant);

impl LoadWatch for Telling {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn progress(&mut self, progress: &LoadProgress) -> ControlFlow<()> {
        // The reader is gone when this process is to be killed.
        let _ = writeln!(std::io::stdout().lock(), "loaded {} .", progress.rows);
        ControlFlow::Continue(())
    }

    fn pause(&mut self) {}
}

const KILLED_ROWS: u64 = 120_000;

#[test]
fn a_killed_load_goes_on_and_repeats_no_row() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(&open(dir.path())));
    let mut loaded = 0;
    for round in 0..12 {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["bulk_crash::loads_until_killed", "--exact", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let line = format!("{}\n", dir.path().display());
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        let told = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let told =
            told.filter_map(|line| line.strip_prefix("loaded ")?.strip_suffix(" .")?.parse().ok());
        // The kill meets the batches behind this one, wherever they are.
        let told: u64 = told.take(1 + round % 4).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let database = open(dir.path());
        let c = database.collection("default", "c").unwrap();
        let now = c.loads().unwrap().first().map_or(0, |load| load.rows);
        assert!(now >= told && told > loaded, "round {round}: {now} rows, {told} were told");
        assert_eq!(c.count(None).unwrap(), now, "round {round}");
        assert!(now < KILLED_ROWS, "round {round}: the load had ended");
        loaded = now;
    }
    let database = open(dir.path());
    let c = database.collection("default", "c").unwrap();
    assert_eq!(run(&c, KILLED_ROWS).unwrap().rows, KILLED_ROWS);
    assert_eq!(rows(&c), expected(KILLED_ROWS));
}
