//! Saved before it is seen; failed saves; readers beside writers.

use std::io;
use std::sync::Arc;

use super::{Ease as _, NOW, create, new_catalog, place};
use crate::catalog::file;
use crate::catalog::{
    Catalog, CatalogError, CatalogStore, EntryChange, FileError, MemoryStore, SaveError, Snapshot,
};
use crate::ids::ErrorClass;
use crate::replication::{Leadership, LogStanding, MemoryLog, SharedChange, SharedLogError};

fn decode(bytes: &[u8]) -> Result<Snapshot, FileError> {
    file::decode(bytes).map(|decoded| decoded.snapshot)
}

fn full_disk() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

#[test]
fn what_readers_see_is_what_is_saved() {
    let (catalog, store) = new_catalog();
    for name in ["a", "b", "c"] {
        catalog.make(create(name, false)).unwrap();
        assert_eq!(decode(&store.file().unwrap()).unwrap(), *catalog.snapshot());
    }
    catalog.refusal(create("9", false));
    assert_eq!(store.replaced(), 1, "for the new catalogue");
    assert_eq!(store.appended(), 3, "one save for each change");
}

#[test]
fn a_snapshot_does_not_change() {
    let (catalog, _) = new_catalog();
    let before = catalog.snapshot();
    let revision = before.revision();
    assert_eq!(catalog.make(create("c", false)).unwrap().revision, revision + 1);
    assert!(before.collection("default", "c").is_err());
    assert_eq!(before.revision(), revision);
}

#[test]
fn after_a_save_that_did_nothing_the_change_can_be_tried_again() {
    let (catalog, store) = new_catalog();
    let before = catalog.snapshot();
    store.fail_next(SaveError::Unchanged(full_disk()));
    let error = catalog.make(create("c", false)).unwrap_err();
    assert!(matches!(error, CatalogError::NotSaved(_)), "{error}");
    assert_eq!(error.class(), ErrorClass::Retry);
    assert_eq!(catalog.snapshot(), before);
    assert_eq!(decode(&store.file().unwrap()).unwrap(), *before, "half a change is none");
    // Behind half a change nothing would be found.
    catalog.make(create("c", false)).unwrap();
    catalog.make(create("d", false)).unwrap();
    assert_eq!(decode(&store.file().unwrap()).unwrap(), *catalog.snapshot());
}

/// A store of which one addition fails so that nobody knows whether it is there.
struct Doubtful {
    store: MemoryStore,
    replaceable: bool,
}

impl CatalogStore for Doubtful {
    fn load(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.store.load()
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        match self.replaceable || self.store.appended() == 0 {
            true => self.store.replace(bytes),
            false => Err(SaveError::Unchanged(full_disk())),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        if self.store.appended() == 1 {
            self.store.fail_next(SaveError::Unknown(io::Error::other("sync failed")));
        }
        self.store.append(bytes)
    }

    fn note(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.store.note(bytes)
    }
}

#[test]
fn a_change_that_may_be_there_is_taken_back() {
    let store = MemoryStore::default();
    let doubtful = Doubtful { store: store.clone(), replaceable: true };
    let catalog = Catalog::create(Box::new(doubtful), NOW).unwrap();
    catalog.make(create("a", false)).unwrap();
    let error = catalog.make(create("b", false)).unwrap_err();
    assert!(matches!(error, CatalogError::NotSaved(_)), "{error}");
    assert_eq!(decode(&store.file().unwrap()).unwrap(), *catalog.snapshot());
    catalog.make(create("c", false)).unwrap();
    assert_eq!(decode(&store.file().unwrap()).unwrap(), *catalog.snapshot());
}

#[test]
fn after_a_save_of_unknown_outcome_nothing_changes_until_it_is_reopened() {
    let store = MemoryStore::default();
    let doubtful = Doubtful { store: store.clone(), replaceable: false };
    let catalog = Catalog::create(Box::new(doubtful), NOW).unwrap();
    catalog.make(create("a", false)).unwrap();
    let before = catalog.snapshot();
    let error = catalog.make(create("c", false)).unwrap_err();
    assert!(matches!(error, CatalogError::Unknown(_)), "{error}");
    assert_eq!(error.class(), ErrorClass::Stop);
    for _ in 0..2 {
        let error = catalog.make(create("d", false)).unwrap_err();
        assert!(matches!(error, CatalogError::Poisoned), "{error}");
        assert_eq!(error.class(), ErrorClass::Stop);
    }
    assert_eq!(catalog.snapshot(), before, "readers go on with what was acknowledged");
    let reopened = Catalog::open(Box::new(store)).unwrap();
    assert_eq!(reopened.get("c").name, "c", "the store had taken it");
    reopened.make(create("d", false)).unwrap();
}

#[test]
fn a_catalogue_that_cannot_be_saved_is_not_created() {
    let store = MemoryStore::default();
    store.fail_next(SaveError::Unchanged(full_disk()));
    let error = Catalog::create(Box::new(store.clone()), NOW).err().unwrap();
    assert!(matches!(error, CatalogError::NotSaved(_)), "{error}");
    assert_eq!(store.file(), None);
}

#[test]
fn writers_take_turns_and_readers_see_whole_states() {
    let (catalog, store) = new_catalog();
    const EACH: usize = 20;
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let catalog = &catalog;
            scope.spawn(move || {
                for i in 0..EACH {
                    let name = format!("w{writer}_{i}");
                    catalog.make(create(&name, false)).unwrap();
                    let (place, alias) = (place(&name), format!("alias_{name}"));
                    catalog.make(EntryChange::CreateAlias { place, alias }).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let mut revision = 0;
            for _ in 0..1000 {
                let snapshot = catalog.snapshot();
                assert!(snapshot.revision() >= revision);
                revision = snapshot.revision();
                assert_eq!(crate::catalog::validate::validate(&snapshot), Ok(()));
            }
        });
    });
    assert_eq!(catalog.snapshot().revision(), 1 + 2 * 3 * EACH as u64);
    assert_eq!(decode(&store.file().unwrap()).unwrap(), *catalog.snapshot());
}

#[test]
fn what_the_shared_log_has_counts_though_the_file_does_not_take_it() {
    let log = MemoryLog::default();
    let (store, leadership) = (MemoryStore::default(), Arc::new(Leadership::default()));
    let catalog = Catalog::create(Box::new(store.clone()), NOW).unwrap();
    let catalog = catalog.shared_by(Arc::clone(&leadership));
    leadership.set(LogStanding::Leads(log.lead().0));
    catalog.make(create("a", false)).unwrap();
    for (name, failure) in [
        ("b", SaveError::Unchanged(full_disk())),
        ("c", SaveError::Unknown(io::Error::other("sync failed"))),
    ] {
        store.fail_next(failure);
        catalog.make(create(name, false)).unwrap();
        assert_eq!(catalog.get(name).name, name, "others have it, so it is shown here too");
    }
    store.fail_next(SaveError::Unchanged(full_disk()));
    assert!(matches!(catalog.settle().unwrap_err(), CatalogError::NotSaved(_)));
    catalog.settle().unwrap();
    assert_eq!(decode(&store.file().unwrap()).unwrap(), *catalog.snapshot());
    catalog.make(create("d", false)).unwrap();
    assert_eq!(decode(&store.file().unwrap()).unwrap(), *catalog.snapshot());
    // Each change has a revision of its own, or those who follow would pass one over.
    let other = Catalog::create(Box::new(MemoryStore::default()), NOW).unwrap();
    log.read(0, |change| {
        let SharedChange::Catalog { revision, delta } = *change else { panic!("{change:?}") };
        let state = other.foresee(revision, delta)?.expect("none is there yet");
        other.follow(state).unwrap();
        Ok::<_, SharedLogError>(())
    })
    .unwrap();
    assert_eq!(other.snapshot(), catalog.snapshot());
}

#[test]
fn a_change_that_comes_from_the_shared_log_while_it_is_made_here_is_saved_once() {
    let (log, leadership) = (MemoryLog::default(), Arc::new(Leadership::default()));
    leadership.set(LogStanding::Leads(log.lead().0));
    let leader = Catalog::create(Box::new(MemoryStore::default()), NOW).unwrap();
    let leader = leader.shared_by(leadership);
    leader.make(create("a", false)).unwrap();
    let (catalog, store) = new_catalog();
    log.read(0, |change| {
        let SharedChange::Catalog { revision, delta } = *change else { panic!("{change:?}") };
        let state = catalog.foresee(revision, delta)?.expect("it is not there yet");
        // A call of before has ended.
        catalog.make(create("a", false)).unwrap();
        catalog.follow(state).unwrap();
        Ok::<_, SharedLogError>(())
    })
    .unwrap();
    assert_eq!(catalog.snapshot(), leader.snapshot());
    let opened = Catalog::open(Box::new(store)).unwrap();
    assert_eq!(opened.snapshot(), leader.snapshot());
    assert!(opened.make(create("b", false)).unwrap().changed);
}
