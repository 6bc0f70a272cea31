//! Random operations on a store on disk, and on the model.

use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::docstore::{MAX_KEY_BYTES, RowPressure, StoreError};
use crate::ids::ErrorClass;

#[derive(Clone, Debug)]
enum Op {
    Batch(Vec<Logged>),
    Repeat,
    /// Of the next batch, whatever it is then.
    ReadAhead(Vec<u64>),
    Flush,
    Compact,
    /// Drops the store without a flush and replays the log.
    Crash,
    Scan {
        row: u64,
        key: Vec<u8>,
        limit: usize,
        included: bool,
    },
    Hold,
}

fn logged() -> impl Strategy<Value = Logged> {
    let key = proptest::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(255)], 0..3);
    let blob = proptest::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        3 => (0u64..60, 0u32..4, key, blob)
            .prop_map(|(row, partition, key, blob)| Logged::Put { row, partition, key, blob }),
        1 => (0u64..70).prop_map(|row| Logged::Delete { row }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let key = proptest::collection::vec(prop_oneof![Just(0u8), Just(b'a')], 0..3);
    prop_oneof![
        8 => proptest::collection::vec(logged(), 0..12).prop_map(Op::Batch),
        1 => Just(Op::Repeat),
        3 => proptest::collection::vec(0u64..70, 0..40).prop_map(Op::ReadAhead),
        2 => Just(Op::Flush),
        1 => Just(Op::Compact),
        1 => Just(Op::Crash),
        2 => (0u64..60, key, 0usize..9, any::<bool>())
            .prop_map(|(row, key, limit, included)| Op::Scan { row, key, limit, included }),
        1 => Just(Op::Hold),
    ]
}

fn bound<T>(at: T, included: bool) -> Bound<T> {
    if included { Bound::Included(at) } else { Bound::Excluded(at) }
}

fn page(
    view: &dyn RowSnapshot,
    row: u64,
    key: &[u8],
    limit: usize,
    included: bool,
) -> (Vec<u64>, Vec<(Vec<u8>, u64)>) {
    let (mut rows, mut keys) = (Vec::new(), Vec::new());
    view.scan_rows(bound(RowId(row), included), limit, &mut |r| rows.push(r.row.0)).unwrap();
    view.scan_keys(bound((key, RowId(row)), included), limit, &mut |k, r| {
        keys.push((k.to_vec(), r.0));
    })
    .unwrap();
    (rows, keys)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..Default::default() })]

    #[test]
    fn any_operations_leave_what_the_model_has(ops in proptest::collection::vec(op(), 1..24)) {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, model) = (Log::default(), MemoryRows::new());
        let mut ops = ops.into_iter().peekable();
        while ops.peek().is_some() {
            let store = open(dir.path());
            prop_assert_eq!(store.applied(), store.durable());
            log.replay(&store);
            assert_same(&store, &model);
            let mut held = None;
            for op in ops.by_ref() {
                match op {
                    Op::Batch(batch) => {
                        log.0.push(batch);
                        log.replay(&store);
                        log.replay(&model);
                    }
                    Op::Repeat => {
                        let again = Logged::Put { row: 0, partition: 9, key: vec![], blob: vec![] };
                        store.apply(log.last(), &[again.change()]).unwrap();
                    }
                    Op::ReadAhead(rows) => {
                        let rows: Vec<_> = rows.into_iter().map(RowId).collect();
                        store.read_ahead(&rows).unwrap();
                    }
                    Op::Flush => prop_assert_eq!(store.flush().unwrap(), log.last()),
                    Op::Compact => while store.compact().unwrap() {},
                    Op::Crash => break,
                    Op::Scan { row, key, limit, included } => prop_assert_eq!(
                        page(&*store.snapshot(), row, &key, limit, included),
                        page(&*model.snapshot(), row, &key, limit, included)
                    ),
                    Op::Hold => held = Some((store.snapshot(), model.snapshot())),
                }
                assert_same(&store, &model);
                if let Some((view, expected)) = &held {
                    prop_assert_eq!(contents(&**view).unwrap(), contents(&**expected).unwrap());
                }
            }
        }
    }
}

#[test]
fn duplicate_keys_are_listed_newest_last() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let put = |row| RowChange::Put { row: RowId(row), partition: 0, key: b"k", blob: b"" };
    store.apply(Seq(1), &[put(300), put(4), put(70_000)]).unwrap();
    assert_eq!(store.rows_of_key(b"k").unwrap(), [RowId(4), RowId(300), RowId(70_000)]);
    store.apply(Seq(2), &[RowChange::Delete { row: RowId(300) }]).unwrap();
    assert_eq!(store.rows_of_key(b"k").unwrap(), [RowId(4), RowId(70_000)]);
    assert_eq!((store.count(), store.next_row()), (2, RowId(70_001)));
}

#[test]
fn a_batch_that_is_refused_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let long = vec![0; MAX_KEY_BYTES + 1];
    let put = |row, key| RowChange::Put { row: RowId(row), partition: 0, key, blob: b"" };
    let refused = store.apply(Seq(1), &[put(1, b"k"), put(2, &long)]).unwrap_err();
    assert!(matches!(refused, StoreError::KeyTooLong { row: 2, .. }), "{refused}");
    assert_eq!(refused.class(), ErrorClass::FixInput);
    assert_eq!((store.applied(), store.count(), store.next_row()), (Seq(0), 0, RowId(0)));
    store.apply(Seq(1), &[put(1, b"k"), put(2, &long[1..])]).unwrap();
    store.flush().unwrap();
    assert_eq!(store.rows_of_key(&long[1..]).unwrap(), [RowId(2)]);
}

#[test]
fn a_full_buffer_asks_for_a_flush_and_then_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let limits = RowStoreOptions { buffer_bytes: 100_000, ..options() };
    let store = LsmRows::open(dir.path(), &limits).unwrap();
    let blob = [7; 10_000];
    let put = |row| [RowChange::Put { row: RowId(row), partition: 0, key: b"k", blob: &blob }];
    let mut seq = Seq(0);
    let mut asked_at = None;
    let refused = loop {
        match store.apply(seq.next(), &put(seq.0)) {
            Ok(RowPressure::Flush) => asked_at = asked_at.or(Some(seq.0)),
            Ok(RowPressure::Low) => assert_eq!(asked_at, None, "pressure stays until a flush"),
            Err(refused) => break refused,
        }
        seq = seq.next();
    };
    assert!(matches!(refused, StoreError::BufferFull { limit: 100_000, .. }), "{refused}");
    assert_eq!(refused.class(), ErrorClass::Retry);
    assert!((3..7).contains(&asked_at.unwrap()), "{asked_at:?}");
    assert_eq!(store.applied(), seq);
    assert_eq!(store.flush().unwrap(), seq);
    assert_eq!(store.apply(seq.next(), &put(seq.0)).unwrap(), RowPressure::Low);
}

#[test]
fn an_empty_batch_moves_the_number_and_costs_no_table() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.apply(Seq(40), &[]).unwrap();
    assert_eq!((store.applied(), store.durable()), (Seq(40), Seq(0)));
    assert_eq!((store.flush().unwrap(), store.disk_bytes()), (Seq(40), 0));
    drop(store);
    assert_eq!(open(dir.path()).applied(), Seq(40));
}

#[test]
fn readers_see_whole_batches_while_writes_and_flushes_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            // Each batch moves all 20 rows to the partition of its number.
            for seq in 1..=400u64 {
                let blob = seq.to_le_bytes();
                let changes: Vec<_> = (0..20)
                    .map(|row| RowChange::Put {
                        row: RowId(row),
                        partition: seq as u32,
                        key: &blob,
                        blob: &blob,
                    })
                    .collect();
                store.apply(Seq(seq), &changes).unwrap();
                if seq % 20 == 0 {
                    store.flush().unwrap();
                    store.compact().unwrap();
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut seen = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let view = store.snapshot();
            let seq = view.applied();
            let rows: Vec<_> = (0..20).map(RowId).collect();
            view.get(&rows, &mut |_, blob| {
                let expected = (seq > Seq(0)).then(|| seq.0.to_le_bytes());
                assert_eq!(blob, expected.as_ref().map(|e| &e[..]));
            })
            .unwrap();
            let listed = view.rows_of_key(&seq.0.to_le_bytes()).unwrap();
            assert_eq!(listed.len() as u64, view.count_in(seq.0 as u32));
            seen += usize::from(seq > Seq(0));
        }
        assert!(seen > 0, "the reader ran beside the writer");
    });
    assert_eq!(store.count(), 20);
}

#[test]
fn a_flush_in_another_thread_keeps_whole_batches_only() {
    let dir = tempfile::tempdir().unwrap();
    let (log, store) = (Log::mixed(1500), open(dir.path()));
    let (begins, flush_begins) = std::sync::mpsc::sync_channel(0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let begins = begins;
            while begins.send(()).is_ok() {
                let before = store.applied();
                let durable = store.flush().unwrap();
                assert!(before <= durable && durable <= store.applied());
                store.compact().unwrap();
            }
        });
        // A piece of the log beside each of ten flushes, and the last one beside none.
        for upto in (1..=10).map(|part| part * log.0.len() / 10) {
            flush_begins.recv().unwrap();
            Log(log.0[..upto].to_vec()).replay(&store);
        }
        drop(flush_begins);
    });
    let model = log.model();
    assert_same(&store, &model);
    let durable = store.durable();
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.applied(), durable);
    assert_same(&store, &Log(log.0[..durable.0 as usize].to_vec()).model());
    log.replay(&store);
    assert_same(&store, &model);
}
