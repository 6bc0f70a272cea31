//! Batches that are applied late: seen at once, in the trees when somebody needs that.

use proptest::prelude::*;

use super::*;
use crate::docstore::StoreError;

/// What a view shows to whoever asks for rows by id, and counts.
type ById = (Vec<Option<Vec<u8>>>, u64, Vec<u64>);

fn by_id(view: &dyn RowSnapshot) -> Result<ById, StoreError> {
    let rows: Vec<_> = (0..400).map(RowId).collect();
    let mut found = Vec::new();
    view.get(&rows, &mut |_, blob| found.push(blob.map(<[u8]>::to_vec)))?;
    Ok((found, view.count(), (0..4).map(|p| view.count_in(p)).collect()))
}

fn assert_same_by_id(store: &dyn RowStore, model: &dyn RowStore) {
    let (found, expected) = (by_id(&*store.snapshot()), by_id(&*model.snapshot()));
    assert_eq!(found.unwrap(), expected.unwrap());
    assert_eq!((store.applied(), store.next_row()), (model.applied(), model.next_row()));
}

/// New rows, and deletions of some that may be there. Only such batches can wait.
fn batch(seq: u64) -> Vec<Logged> {
    let put = |row| Logged::Put {
        row,
        partition: (row % 3) as u32,
        key: format!("key {}", row % 7).into_bytes(),
        blob: format!("row {row}").into_bytes(),
    };
    let mut changes: Vec<_> = match seq % 4 {
        0 => Vec::new(),
        n => (0..n).map(|i| put(seq * 4 + i)).collect(),
    };
    changes.extend([seq * 5 % 37, seq * 4 - 2].map(|row| Logged::Delete { row }));
    changes
}

fn apply_late(store: &dyn RowStore, seq: u64, batch: &[Logged]) {
    let changes: Vec<_> = batch.iter().map(Logged::change).collect();
    store.apply_late(Seq(seq), &changes).unwrap();
}

#[derive(Clone, Debug)]
enum Op {
    Late,
    /// With changes that cannot wait.
    LateMixed,
    Now,
    CatchUp,
    Flush,
    Hold,
    LookAtAll,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => Just(Op::Late),
        1 => Just(Op::LateMixed),
        1 => Just(Op::Now),
        2 => Just(Op::CatchUp),
        1 => Just(Op::Flush),
        2 => Just(Op::Hold),
        1 => Just(Op::LookAtAll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..Default::default() })]

    #[test]
    fn rows_are_there_whether_they_wait_or_not(ops in proptest::collection::vec(op(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let (store, model) = (open(dir.path()), MemoryRows::new());
        let (mut seq, mut held) = (0, Vec::new());
        for op in ops {
            match op {
                Op::Late | Op::LateMixed | Op::Now => {
                    seq += 1;
                    let new = if matches!(op, Op::LateMixed) { mixed_batch(seq) } else { batch(seq) };
                    apply_late(&model, seq, &new);
                    match op {
                        Op::Now => {
                            let changes: Vec<_> = new.iter().map(Logged::change).collect();
                            store.apply(Seq(seq), &changes).unwrap();
                        }
                        _ => apply_late(&store, seq, &new),
                    }
                }
                Op::CatchUp => drop(store.catch_up()),
                Op::Flush => prop_assert_eq!(store.flush().unwrap(), Seq(seq)),
                Op::Hold => held.push((store.snapshot(), model.snapshot())),
                Op::LookAtAll => assert_same(&store, &model),
            }
            assert_same_by_id(&store, &model);
            for (view, expected) in &held {
                prop_assert_eq!(by_id(&**view).unwrap(), by_id(&**expected).unwrap());
            }
        }
        for (view, expected) in &held {
            prop_assert_eq!(contents(&**view).unwrap(), contents(&**expected).unwrap());
        }
        while store.catch_up() {}
        assert_same_by_id(&store, &model);
        assert_same(&store, &model);
    }
}

#[test]
fn what_waits_is_flushed_with_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let model = MemoryRows::new();
    {
        let store = open(dir.path());
        (1..=9).for_each(|seq| apply_late(&store, seq, &batch(seq)));
        assert_eq!(store.flush().unwrap(), Seq(9));
        assert!(!store.is_behind(), "nothing waits behind a flush");
    }
    (1..=9).for_each(|seq| apply_late(&model, seq, &batch(seq)));
    assert_same(&open(dir.path()), &model);
}

#[test]
fn a_few_batches_at_a_time_come_to_the_trees() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    (1..=9).for_each(|seq| apply_late(&store, seq, &batch(seq)));
    assert!(store.is_behind());
    let mut steps = 1;
    while store.catch_up() {
        steps += 1;
    }
    assert!((2..=9).contains(&steps) && !store.is_behind(), "{steps}");
}

#[test]
fn rows_that_wait_count_as_buffered() {
    let dir = tempfile::tempdir().unwrap();
    let limits = RowStoreOptions { buffer_bytes: 100_000, ..options() };
    let store = LsmRows::open(dir.path(), &limits).unwrap();
    let blob = [7; 10_000];
    let refused = (1..100).find_map(|row| {
        let put = RowChange::Put { row: RowId(row), partition: 0, key: b"k", blob: &blob };
        store.apply_late(Seq(row), &[put]).err()
    });
    assert!(matches!(refused, Some(StoreError::BufferFull { limit: 100_000, .. })), "{refused:?}");
}

#[test]
fn readers_see_whole_batches_while_another_thread_catches_up() {
    let dir = tempfile::tempdir().unwrap();
    let (store, model) = (open(dir.path()), MemoryRows::new());
    for seq in 1..=80 {
        apply_late(&store, seq, &batch(seq));
        apply_late(&model, seq, &batch(seq));
    }
    let expected = by_id(&*model.snapshot()).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| while store.catch_up() {});
        for _ in 0..20 {
            assert_eq!(by_id(&*store.snapshot()).unwrap(), expected);
        }
    });
    assert_same(&store, &model);
}
