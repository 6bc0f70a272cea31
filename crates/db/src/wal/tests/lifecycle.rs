//! A log's days: creating, appending, rotating, reopening, removing what is applied.

use super::super::*;
use super::*;
use crate::disk::{PowerCut, RealDisk};
use crate::ids::ErrorClass;

#[test]
fn records_come_back_in_order_from_real_files() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(dir.path()).unwrap());
    let log = create(&disk, small());
    let mut expected = Vec::new();
    for round in 0..40 {
        for record in examples() {
            expected.push((log.append(&record).unwrap(), record));
        }
        if round == 20 {
            assert_eq!((log.last(), log.durable()), (Seq(84), Seq(84)));
        }
    }
    log.close().unwrap();
    let (log, recovery) = Log::open(disk.clone(), DIR, ID, small()).unwrap();
    let found =
        Recovery { first: Seq(1), last: Seq(160), rewritten: 0, torn: None, read_only: None };
    assert_eq!(recovery, found);
    for from in [1, 2, 77, 160, 161] {
        let records: Vec<_> = log.replay(Seq(from)).unwrap().map(|r| r.unwrap()).collect();
        let decoded: Vec<_> = records.iter().map(|r| (r.seq, r.decode().unwrap())).collect();
        assert_eq!(decoded, expected[from as usize - 1..], "from {from}");
    }
    let verified = verify(&disk, DIR, ID).unwrap();
    assert_eq!((verified.first, verified.last, verified.records), (Seq(1), Seq(160), 160));
    assert!(verified.segments > 5 && verified.torn.is_none(), "{verified:?}");
}

#[test]
fn numbers_go_on_after_reopening_and_an_idle_opening_writes_nothing() {
    let (files, disk) = crash_disk();
    append(&create(&disk, small()), b"one");
    let before = files.files();
    for _ in 0..3 {
        open(&disk).close().unwrap();
    }
    assert_eq!(files.files(), before, "nothing was appended, so nothing was written");
    assert_eq!(append(&open(&disk), b"two"), Seq(2));
    assert_eq!(append(&open(&disk), b"three"), Seq(3));
    let all = [(1, b"one".to_vec()), (2, b"two".to_vec()), (3, b"three".to_vec())];
    assert_eq!(contents(&open(&disk), 1), all);
    assert_eq!(names(&files).len(), 3, "each opening that wrote has its segment");
}

#[test]
fn an_empty_log_is_replaced_by_its_first_segment_with_records() {
    let (files, disk) = crash_disk();
    drop(create(&disk, small()));
    assert!(contents(&open(&disk), 1).is_empty());
    append(&open(&disk), b"one");
    assert_eq!(names(&files), ["wal/00000000000000000001.wal"]);
    assert_eq!(contents(&open(&disk), 1), [(1, b"one".to_vec())]);
}

#[test]
fn a_restored_collection_goes_on_where_it_was() {
    let (_, disk) = crash_disk();
    let log = Log::create(disk.clone(), DIR, ID, Seq(1000), small()).unwrap();
    assert_eq!(append(&log, b"x"), Seq(1000));
    drop(log);
    let log = open(&disk);
    assert_eq!(contents(&log, 1000), [(1000, b"x".to_vec())]);
    let early = log.replay(Seq(999)).unwrap_err();
    assert!(matches!(early, WalError::BeforeStart { first: Seq(1000), .. }), "{early}");
}

#[test]
fn segments_are_rotated_and_removed_when_all_have_applied_them() {
    let (files, disk) = crash_disk();
    let log = create(&disk, small());
    for i in 0..30u8 {
        append(&log, &[i; 300]);
    }
    let before = names(&files).len();
    assert!(before >= 6, "{before} segments of 2000 bytes hold 30 records of 300");
    assert_eq!(log.truncate_before(Seq(1)).unwrap(), Truncated { segments: 0, first: Seq(1) });
    let cut = log.truncate_before(Seq(17)).unwrap();
    assert!(cut.segments >= 2 && cut.first > Seq(1) && cut.first <= Seq(17), "{cut:?}");
    assert_eq!(names(&files).len(), before - cut.segments);
    let early = log.replay(Seq(1)).unwrap_err();
    assert!(matches!(early, WalError::BeforeStart { asked: Seq(1), .. }), "{early}");
    assert_eq!(contents(&log, 17).len(), 14);
    drop(log);
    let log = open(&disk);
    assert_eq!(contents(&log, cut.first.0).len() as u64, 31 - cut.first.0);
    let all = log.truncate_before(Seq(1000)).unwrap();
    assert_eq!(names(&files).len(), 1, "the last segment stays: {all:?}");
    assert_eq!(append(&log, b"on"), Seq(31));
}

#[test]
fn a_caller_that_is_ahead_of_the_log_is_told() {
    let (_, disk) = crash_disk();
    let log = create(&disk, small());
    append(&log, b"one");
    assert_eq!(log.replay(Seq(2)).unwrap().count(), 0);
    let ahead = log.replay(Seq(3)).unwrap_err();
    assert!(matches!(ahead, WalError::AfterEnd { last: Seq(1), asked: Seq(3), .. }), "{ahead}");
    assert_eq!(ahead.class(), ErrorClass::Stop);
}

#[test]
fn a_log_is_not_created_twice_nor_opened_where_none_is() {
    let (files, disk) = crash_disk();
    disk.create_dir(DIR).unwrap();
    let none = Log::open(disk.clone(), DIR, ID, small()).map(drop).unwrap_err();
    assert!(matches!(none, WalError::NoLog { .. }), "{none}");
    assert!(matches!(verify(&disk, DIR, ID), Err(WalError::NoLog { .. })));
    append(&create(&disk, small()), b"one");
    let before = files.files();
    let twice = Log::create(disk.clone(), DIR, ID, Seq(1), small()).map(drop).unwrap_err();
    assert!(matches!(twice, WalError::Exists { .. }), "{twice}");
    assert_eq!(files.files(), before);
}

#[test]
fn a_replay_ends_where_the_log_was_when_it_began() {
    let (_, disk) = crash_disk();
    let log = create(&disk, small());
    append(&log, b"one");
    let mut replay = log.replay(Seq(1)).unwrap();
    append(&log, b"two");
    assert_eq!(replay.next().unwrap().unwrap().payload, b"one");
    assert!(replay.next().is_none());
}

#[test]
fn level_none_survives_a_kill_and_its_sync_a_power_cut() {
    let (files, disk) = crash_disk();
    let log = create(&disk, LogOptions { level: Level::None, ..small() });
    append(&log, b"one");
    log.sync().unwrap();
    append(&log, b"two");
    assert_eq!((log.last(), log.durable()), (Seq(2), Seq(1)));
    let after = |cut| {
        let disk: Arc<dyn Disk> = Arc::new(files.after(cut));
        contents(&open(&disk), 1).len()
    };
    assert_eq!((after(PowerCut::Keep), after(PowerCut::Drop)), (2, 1));
    log.close().unwrap();
    assert_eq!(after(PowerCut::Drop), 2);
}

#[test]
fn a_submitted_record_goes_along_with_the_next_that_is_waited_for() {
    let (files, disk) = crash_disk();
    let log = create(&disk, small());
    let link = log.submit(RecordKind::Link, b"link").unwrap();
    assert_eq!((link.seq(), log.durable()), (Seq(1), Seq(0)));
    append(&log, b"put");
    assert_eq!(log.durable(), Seq(2));
    let disk: Arc<dyn Disk> = Arc::new(files.after(PowerCut::Drop));
    assert_eq!(contents(&open(&disk), 1).len(), 2);
    assert_eq!(log.wait(link).unwrap(), Seq(1));
}

#[test]
fn a_full_queue_is_written_by_who_submits() {
    let (_, disk) = crash_disk();
    let log = create(&disk, LogOptions { queue_bytes: 1000, ..small() });
    for _ in 0..10 {
        let _ = log.submit(RecordKind::Put, &[1; 400]).unwrap();
    }
    assert!(contents(&log, 1).len() >= 8, "all but what fits the queue is written");
    let _ = log.submit(RecordKind::Put, &[1; 5000]).unwrap();
    assert_eq!(log.sync().unwrap(), Seq(11));
    assert_eq!(contents(&log, 1).len(), 11);
}

#[test]
fn a_payload_that_is_too_long_is_refused_and_nothing_happens() {
    let (_, disk) = crash_disk();
    let log = create(&disk, small());
    let long = vec![0; constants::MAX_PAYLOAD_BYTES + 1];
    let refused = log.submit(RecordKind::Put, &long).map(drop).unwrap_err();
    assert_eq!(refused.class(), ErrorClass::FixInput);
    let row = PutRow { row: RowId(1), partition: 0, key: b"", blob: &long };
    assert_eq!(log.append(&Record::Put(vec![row])).unwrap_err().class(), ErrorClass::FixInput);
    assert_eq!(append(&log, b"x"), Seq(1));
}

#[test]
fn levels_have_names() {
    for level in [Level::Sync, Level::Group { delay_ms: 7 }, Level::None] {
        assert_eq!(Level::from_name(level.name(), 7), Some(level));
    }
    assert_eq!(Level::from_name("async", 7), None);
    assert_eq!(LogOptions::default().level, Level::Sync);
}

#[test]
fn logs_that_rest_keep_few_files_open() {
    const LOGS: usize = 400;
    let dir = tempfile::tempdir().unwrap();
    let real = Arc::new(RealDisk::open(dir.path()).unwrap());
    let disk: Arc<dyn Disk> = real.clone();
    let name = |i: usize| format!("{i}");
    let create = |i| Log::create(disk.clone(), &name(i), ID, Seq(1), LogOptions::default());
    let logs: Vec<_> = (0..LOGS).map(|i| create(i).unwrap()).collect();
    for log in &logs {
        append(log, b"one");
        assert!(real.open_for_appending() <= 256, "{}", real.open_for_appending());
    }
    for log in logs {
        append(&log, b"two");
        log.close().unwrap();
    }
    for i in 0..LOGS {
        let (log, found) = Log::open(disk.clone(), &name(i), ID, small()).unwrap();
        assert_eq!((found.last, found.torn), (Seq(2), None));
        assert_eq!(contents(&log, 2), [(2, b"two".to_vec())]);
    }
}
