//! Random changes against the naive model. Compared are the outcome of each change, by the name
//! of its refusal, and all that a reader sees; now and then the catalogue is opened anew, or a save
//! fails.

use std::collections::BTreeSet;
use std::io;

use proptest::prelude::*;

use super::model::{Model, of_model, refusal, seen};
use super::{NOW, index, new_catalog, schema};
use crate::catalog::{
    Catalog, CatalogError, CollectionPath, EntryChange, MemoryStore, NewCollection, Properties,
    SaveError, Subject,
};

const DATABASES: [&str; 3] = ["default", "d1", "d2"];
const NAMES: [&str; 4] = ["a", "b", "c", "bad name"];
const PARTITIONS: [&str; 4] = ["p", "_default", "q", "_default_1"];
const FIELDS: [&str; 4] = ["vector", "tenant", "words", "gone"];

#[derive(Clone, Debug)]
enum Step {
    Apply(EntryChange),
    /// The change is refused because it cannot be saved, if it would be made.
    FailToSave(EntryChange),
    Reopen,
}

fn pick(from: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    prop::sample::select(from).prop_map(str::to_owned)
}

/// Mostly the first of a list, so that changes meet.
fn mostly_first(from: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    prop_oneof![3 => Just(from[0].to_owned()), 2 => pick(from)]
}

fn place() -> impl Strategy<Value = CollectionPath> + Clone {
    (mostly_first(&DATABASES), mostly_first(&NAMES))
        .prop_map(|(database, name)| CollectionPath::new(database, name))
}

fn change() -> impl Strategy<Value = EntryChange> {
    let partitions = || prop::option::of(prop::collection::vec(mostly_first(&PARTITIONS), 0..3));
    let create = (place(), prop::bool::weighted(0.2)).prop_map(|(place, keyed)| {
        let new = Box::new(NewCollection::new(schema(keyed)));
        EntryChange::CreateCollection { place, new }
    });
    let names = || mostly_first(&NAMES);
    prop_oneof![
        2 => pick(&DATABASES).prop_map(|name| {
            EntryChange::CreateDatabase { name, properties: Properties::new() }
        }),
        1 => pick(&DATABASES).prop_map(|name| EntryChange::DropDatabase { name }),
        4 => create,
        1 => place().prop_map(|place| EntryChange::DropCollection { place }),
        2 => (place(), place()).prop_map(|(place, to)| EntryChange::RenameCollection { place, to }),
        2 => (place(), pick(&NAMES)).prop_map(|(place, alias)| EntryChange::CreateAlias { place, alias }),
        1 => (place(), names()).prop_map(|(place, alias)| EntryChange::AlterAlias { place, alias }),
        1 => (pick(&DATABASES), names())
            .prop_map(|(database, alias)| EntryChange::DropAlias { database, alias }),
        3 => (place(), mostly_first(&PARTITIONS))
            .prop_map(|(place, partition)| EntryChange::CreatePartition { place, partition }),
        2 => (place(), mostly_first(&PARTITIONS))
            .prop_map(|(place, partition)| EntryChange::DropPartition { place, partition }),
        2 => (place(), mostly_first(&FIELDS))
            .prop_map(|(place, field)| EntryChange::CreateIndex { place, new: index(&field) }),
        2 => (place(), mostly_first(&FIELDS))
            .prop_map(|(place, index)| EntryChange::DropIndex { place, index }),
        3 => (place(), partitions())
            .prop_map(|(place, partitions)| EntryChange::Load { place, partitions }),
        3 => (place(), partitions())
            .prop_map(|(place, partitions)| EntryChange::Release { place, partitions }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => change().prop_map(Step::Apply),
        2 => change().prop_map(Step::FailToSave),
        1 => Just(Step::Reopen),
    ]
}

/// The id of what was created, where something was.
fn created(change: &EntryChange, subject: Subject) -> Option<u64> {
    match (change, subject) {
        (EntryChange::CreateDatabase { .. }, Subject::Database(id)) => Some(id.0),
        (EntryChange::CreateCollection { .. }, Subject::Collection(id)) => Some(id.0),
        (EntryChange::CreatePartition { .. }, Subject::Partition(_, id)) => Some(id.0),
        (EntryChange::CreateIndex { .. }, Subject::Index(_, id)) => Some(id.0),
        _ => None,
    }
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (mut catalog, store): (Catalog, MemoryStore) = new_catalog();
    let mut model = Model::new();
    let mut ids = BTreeSet::new();
    for step in steps {
        match step {
            Step::Apply(change) => {
                let expected = model.apply(&change);
                let before = catalog.snapshot().revision();
                let found = catalog.apply(change.clone(), NOW);
                if let Ok(applied) = &found {
                    prop_assert_eq!(applied.revision, before + u64::from(applied.changed));
                    if let Some(id) = created(&change, applied.subject).filter(|_| applied.changed)
                    {
                        prop_assert!(ids.insert(id), "{} was used before", id);
                    }
                }
                let found = found.as_ref().map(|applied| applied.changed).map_err(refusal);
                prop_assert_eq!(found, expected, "{:?}", change);
            }
            Step::FailToSave(change) => {
                let would_change = model.clone().apply(&change) == Ok(true);
                store.fail_next(SaveError::Unchanged(io::Error::other("full")));
                let found = catalog.apply(change, NOW);
                let not_saved = matches!(found, Err(CatalogError::NotSaved(_)));
                prop_assert_eq!(not_saved, would_change);
                store.succeed_next();
            }
            Step::Reopen => catalog = Catalog::open(Box::new(store.clone())).unwrap(),
        }
        prop_assert_eq!(seen(&catalog), of_model(&model));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_changes_agree_with_a_naive_model(steps in prop::collection::vec(step(), 1..120)) {
        run(steps)?;
    }
}
