//! Random operations on a collection, against a list in memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pipeann_db::collection::Collection;
use pipeann_db::database::Database;
use proptest::prelude::*;

use crate::data::{
    FIELDS, batch, collection, create, distance, keys, open, rows, search_by, seed, vector,
};

/// Few keys, so that they meet.
const KEYS: i64 = 12;

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<(i64, u32)>),
    Upsert(Vec<(i64, u32)>),
    Delete(Vec<i64>),
    Flush,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let row = (0..KEYS, 0..500_u32);
    let some = prop::collection::vec(row, 1..6);
    prop_oneof![
        4 => some.clone().prop_map(Step::Insert),
        3 => some.prop_map(|mut rows| {
            let mut seen = BTreeSet::new();
            rows.retain(|row| seen.insert(row.0));
            Step::Upsert(rows)
        }),
        3 => prop::collection::vec(0..KEYS, 1..4).prop_map(Step::Delete),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

/// Rows in the order of their ids.
type Model = Vec<(i64, u32)>;

fn apply(model: &mut Model, step: &Step) {
    match step {
        Step::Insert(rows) => model.extend(rows),
        Step::Upsert(rows) => {
            model.retain(|row| !rows.iter().any(|new| new.0 == row.0));
            model.extend(rows);
        }
        Step::Delete(keys) => model.retain(|row| !keys.contains(&row.0)),
        Step::Flush | Step::Reopen => {}
    }
}

fn compare(c: &Collection, model: &Model, near: u32) {
    assert_eq!(rows(c), *model);
    assert_eq!(c.count(None).unwrap(), model.len() as u64);
    let all: Vec<i64> = (0..KEYS).collect();
    let found = c.get(&keys(&all), FIELDS).unwrap();
    let found: Vec<_> = found.iter().map(|row| seed(&row.values)).collect();
    let newest = |key| model.iter().rfind(|row| row.0 == key).map(|row| row.1);
    assert_eq!(found, all.iter().filter_map(|&key| newest(key)).collect::<Vec<_>>());
    let query = vector(near);
    let mut nearest: Vec<(f32, usize)> =
        model.iter().enumerate().map(|(i, row)| (distance(query, vector(row.1)), i)).collect();
    nearest.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let mut seen = BTreeSet::new();
    nearest.retain(|&(_, i)| seen.insert(model[i].0));
    for k in [1, 3, 100] {
        let hits = search_by(c, k, query);
        let expected = nearest.iter().take(k);
        assert_eq!(hits.len(), expected.len());
        for (hit, (distance, i)) in hits.iter().zip(expected) {
            assert!((hit.distance - distance).abs() <= 1e-4 * (1.0 + distance), "{hit:?}");
            assert_eq!(
                (hit.row.key.clone(), seed(&hit.row.values)),
                (keys(&[model[*i].0])[0].clone(), model[*i].1)
            );
        }
    }
}

fn run(dir: &Path, steps: &[Step]) {
    let mut database: Database = open(dir);
    let mut c: Arc<Collection> = create(&database);
    let mut model = Model::new();
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Insert(rows) => {
                c.insert(batch(rows), None).unwrap();
            }
            Step::Upsert(rows) => {
                c.upsert(batch(rows), None).unwrap();
            }
            Step::Delete(some) => {
                let before = model.len();
                let deleted = c.delete(&keys(some)).unwrap().rows as usize;
                let mut after = model.clone();
                apply(&mut after, step);
                assert_eq!(deleted, before - after.len());
            }
            Step::Flush => {
                c.flush().unwrap();
            }
            Step::Reopen => {
                drop((c, database));
                database = open(dir);
                c = collection(&database);
            }
        }
        apply(&mut model, step);
        compare(&c, &model, i as u32 * 7);
    }
    assert_eq!(c.verify().unwrap(), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_collection_answers_as_a_list_in_memory_does(steps in prop::collection::vec(step(), 1..40)) {
        run(tempfile::tempdir().unwrap().path(), &steps);
    }
}
