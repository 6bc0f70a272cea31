//! Random operations against a naive model: a map from row to vector.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Numbers, Rows, assert_sound, built, live, params, read_only};
use crate::types::RowId;
use crate::update::{LinkedRow, LiveIndex};

#[derive(Clone, Debug)]
enum Operation {
    /// Rows inserted.
    Insert(usize),
    /// Rows deleted.
    Delete(usize),
    /// Pages consolidated.
    Consolidate(u32),
    Checkpoint,
    Reopen,
    /// The changes since the last checkpoint are lost and replayed.
    Crash,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let one = prop_oneof![
        4 => (1usize..60).prop_map(Operation::Insert),
        3 => (1usize..60).prop_map(Operation::Delete),
        3 => (1u32..40).prop_map(Operation::Consolidate),
        2 => Just(Operation::Checkpoint),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Crash),
    ];
    prop::collection::vec(one, 1..25)
}

/// What a log would hold since the last checkpoint.
enum Logged {
    Link(LinkedRow),
    Delete(u64),
}

fn check(index: &LiveIndex, rows: &Rows, model: &BTreeMap<u64, usize>, numbers: &mut Numbers) {
    assert_eq!(index.rows(), model.len() as u64);
    for _ in 0..6 {
        let probe = numbers.below(rows.len());
        let hits = index.search(rows.row(probe), &params(150), None).unwrap().hits;
        assert_eq!(hits.len(), model.len().min(10), "as many as there are");
        assert!(hits.iter().all(|h| model.contains_key(&h.row.0)), "no deleted row: {hits:?}");
    }
    let live: Vec<(&u64, &usize)> = model.iter().collect();
    for _ in 0..6.min(live.len()) {
        let (&row, &vector) = live[numbers.below(live.len())];
        let hits = index.search(rows.row(vector), &params(150), None).unwrap().hits;
        let found = hits.iter().any(|h| h.row.0 == row && h.distance == 0.0);
        assert!(found, "row {row} of {} is not found by its own vector: {hits:?}", live.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_agree_with_a_map(all in operations(), seed in any::<u64>()) {
        let rows = Rows::clustered(2_000, 16, 5);
        let place = built(&rows, 300);
        let mut index = live(&place.path);
        let mut numbers = Numbers::new(seed);
        let mut model: BTreeMap<u64, usize> = (0..300).map(|r| (r as u64, r)).collect();
        let mut saved = model.clone();
        let mut log: Vec<Logged> = Vec::new();
        let mut next = 300;
        for operation in all {
            match operation {
                Operation::Insert(count) => {
                    for _ in 0..count.min(rows.len() - next) {
                        let link = index.insert(RowId(next as u64), rows.row(next)).unwrap();
                        log.push(Logged::Link(link));
                        model.insert(next as u64, next);
                        next += 1;
                    }
                }
                Operation::Delete(count) => {
                    for _ in 0..count {
                        let row = numbers.below(next) as u64;
                        let was_there = model.remove(&row).is_some();
                        prop_assert_eq!(index.delete(RowId(row)).unwrap(), was_there);
                        log.push(Logged::Delete(row));
                    }
                }
                Operation::Consolidate(pages) => {
                    index.consolidate(pages).unwrap();
                }
                Operation::Checkpoint => {
                    index.checkpoint(next as u64).unwrap();
                    saved.clone_from(&model);
                    log.clear();
                }
                Operation::Reopen => {
                    index.checkpoint(next as u64).unwrap();
                    saved.clone_from(&model);
                    log.clear();
                    drop(index);
                    assert_sound(&place.path);
                    index = live(&place.path);
                }
                Operation::Crash => {
                    drop(index);
                    prop_assert_eq!(read_only(&place.path).rows(), saved.len() as u64);
                    index = live(&place.path);
                    check(&index, &rows, &saved, &mut numbers);
                    for entry in &log {
                        match entry {
                            Logged::Link(link) => {
                                index.apply_link(link, rows.row(link.row.0 as usize)).unwrap();
                            }
                            Logged::Delete(row) => {
                                index.delete(RowId(*row)).unwrap();
                            }
                        }
                    }
                }
            }
            check(&index, &rows, &model, &mut numbers);
        }
    }
}
