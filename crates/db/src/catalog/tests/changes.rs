//! Changes behind the catalogue: pinned bytes, every cut, every damage, and what one costs.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::{Ease as _, NOW, create, index, new_catalog, pairs, place};
use crate::catalog::file::{decode, encode};
use crate::catalog::limits::MAX_ENTRY_BYTES;
use crate::catalog::{
    Catalog, CatalogError, CatalogStore, CollectionPath, EntryChange, FileError, MemoryStore,
    NewCollection, Properties, SaveError, Snapshot,
};
use crate::ids::ErrorClass;

/// One change of each kind of entry.
fn script() -> Vec<EntryChange> {
    let EntryChange::CreateCollection { new, .. } = create("k", true) else { unreachable!() };
    let properties = pairs(&[("owner", "ä")]);
    vec![
        EntryChange::CreateDatabase { name: "other".into(), properties: properties.clone() },
        create("c", false),
        EntryChange::CreateCollection { place: CollectionPath::new("other", "k"), new },
        EntryChange::CreateAlias { place: place("c"), alias: "a".into() },
        EntryChange::CreatePartition { place: place("c"), partition: "p".into() },
        EntryChange::CreateIndex { place: place("c"), new: index("vector") },
        EntryChange::Load { place: place("c"), partitions: None },
        EntryChange::RenameCollection {
            place: CollectionPath::new("other", "k"),
            to: CollectionPath::new("default", "m"),
        },
        EntryChange::AlterDatabase { name: "default".into(), set: properties, remove: vec![] },
        EntryChange::DropAlias { database: "default".into(), alias: "a".into() },
        EntryChange::DropCollection { place: place("c") },
        EntryChange::DropDatabase { name: "other".into() },
    ]
}

/// Each state that [`script`] leads through, the first one first, the file, and its length in each.
fn followed() -> (Vec<Arc<Snapshot>>, Vec<u8>, Vec<usize>) {
    let (catalog, store) = new_catalog();
    let length = || store.file().unwrap().len();
    let (mut states, mut ends) = (vec![catalog.snapshot()], vec![length()]);
    for change in script() {
        assert!(catalog.make(change).unwrap().changed);
        states.push(catalog.snapshot());
        ends.push(length());
    }
    assert_eq!(store.replaced(), 1, "all else was added");
    (states, store.file().unwrap(), ends)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "regenerates the file on a developer's wish")]
fn golden_changes() {
    let (_, file, ends) = followed();
    let mut found = String::new();
    for line in file[ends[0]..].chunks(32) {
        line.iter().for_each(|byte| write!(found, "{byte:02x}").unwrap());
        found.push('\n');
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/catalogue-changes.hex");
    if std::env::var_os("PIPEANN_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    assert_eq!(found, expected, "the bytes on disk have changed");
}

#[test]
fn what_was_changed_comes_back_and_an_opening_and_an_end_write_it_whole() {
    let (states, file, _) = followed();
    let store = MemoryStore::holding(file.clone());
    let opened = Catalog::open(Box::new(store.clone())).unwrap();
    assert_eq!(opened.snapshot(), *states.last().unwrap());
    assert_eq!(store.file().unwrap(), encode(&opened.snapshot()).0);
    opened.make(create("n", false)).unwrap();
    assert_eq!((store.replaced(), store.appended()), (1, 1));
    assert_eq!(decode(&store.file().unwrap()).unwrap().snapshot, *opened.snapshot());
    opened.close();
    assert_eq!(store.file().unwrap(), encode(&opened.snapshot()).0);
    opened.close();
    assert_eq!((store.replaced(), store.appended()), (2, 1), "there is nothing to be done");
    let again = Catalog::open(Box::new(store.clone())).unwrap();
    assert_eq!(store.replaced(), 2, "an opening that need not write does not");
    assert_eq!(again.snapshot(), opened.snapshot());
    // Where there is no room, they stay where they are.
    let store = MemoryStore::holding(file.clone());
    store.fail_next(SaveError::Unchanged(io::Error::from(io::ErrorKind::StorageFull)));
    let opened = Catalog::open(Box::new(store.clone())).unwrap();
    assert_eq!((opened.snapshot(), store.file().unwrap()), (states.last().unwrap().clone(), file));
}

#[test]
fn a_file_that_is_cut_anywhere_holds_the_changes_that_are_whole() {
    let (states, file, ends) = followed();
    for length in ends[0]..=file.len() {
        let decoded = decode(&file[..length]).unwrap();
        // A change is there before its mark is.
        let whole = ends.iter().skip(1).filter(|&&end| end - 32 <= length).count();
        assert_eq!(decoded.snapshot, *states[whole], "cut to {length}");
        let marked = ends.iter().skip(1).filter(|&&end| end <= length).count();
        assert_eq!(decoded.unvouched, whole > marked, "cut to {length}");
    }
}

#[test]
fn a_change_that_might_not_outlive_the_power_is_saved_before_it_is_seen() {
    let (states, file, ends) = followed();
    let store = MemoryStore::holding(file[..ends[2] - 32].to_vec());
    let opened = Catalog::open(Box::new(store.clone())).unwrap();
    assert_eq!(opened.snapshot(), states[2]);
    assert_eq!((store.replaced(), store.file().unwrap()), (1, encode(&states[2]).0));
    let store = MemoryStore::holding(file[..ends[2] - 32].to_vec());
    store.fail_next(SaveError::Unchanged(io::Error::from(io::ErrorKind::StorageFull)));
    let refused = Catalog::open(Box::new(store)).err().unwrap();
    assert!(matches!(refused, CatalogError::NotSaved(_)), "{refused}");
}

#[test]
fn a_flipped_bit_in_any_byte_of_a_change_is_refused_by_name() {
    let (states, mut file, ends) = followed();
    let all = states.len() - 1;
    for at in ends[0]..file.len() {
        file[at] ^= 1 << (at % 8);
        match decode(&file) {
            // The last mark: nobody can tell that it was there.
            Ok(decoded) => {
                assert!(at >= ends[all] - 32, "byte {at}");
                assert!(decoded.unvouched && decoded.snapshot == *states[all]);
            }
            Err(FileError::ChangeLost { offset }) => {
                assert!(ends.iter().any(|&end| [end as u64, end as u64 - 32].contains(&offset)));
                assert!(offset <= at as u64);
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
        file[at] ^= 1 << (at % 8);
    }
}

#[test]
fn changes_of_another_file_are_none_of_this_one() {
    let (states, file, ends) = followed();
    // As where blocks of a file that was removed show up behind this one.
    let (other, _) = encode(&states[3]);
    let strange = [&other, &file[ends[3]..]].concat();
    let decoded = decode(&strange).unwrap();
    assert_eq!((&decoded.snapshot, decoded.unvouched), (&*states[3], false));
}

#[test]
fn a_change_that_does_not_fit_is_refused_by_its_place() {
    let (states, _, _) = followed();
    let (whole, _) = encode(&states[1]);
    for (from, to, expected) in [(3, 4, "makes revision"), (1, 1, "makes revision 2 of 2")] {
        let (_, mut tail) = encode(&states[1]);
        let delta = crate::catalog::delta::Delta::between(&states[from], &states[to]);
        let file = [&whole[..], &tail.change(&delta)].concat();
        let error = CatalogError::File(decode(&file).unwrap_err());
        let said = error.to_string();
        assert!(said.contains(&format!("byte {}", whole.len())), "{said}");
        assert!(said.contains(expected), "{said}");
        assert_eq!(error.class(), ErrorClass::Stop);
    }
}

/// Counts the bytes that are written.
struct Counting(Mutex<MemoryStore>, Arc<AtomicU64>);

impl Counting {
    fn count(&self, bytes: &[u8]) {
        self.1.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

impl CatalogStore for Counting {
    fn load(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.0.lock().unwrap().load()
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        self.count(bytes);
        self.0.lock().unwrap().replace(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        self.count(bytes);
        self.0.lock().unwrap().append(bytes)
    }

    fn note(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.count(bytes);
        self.0.lock().unwrap().note(bytes)
    }
}

#[test]
fn a_creation_writes_as_much_however_many_collections_there_are() {
    let (store, written) = (MemoryStore::default(), Arc::new(AtomicU64::new(0)));
    let counting = Counting(Mutex::new(store.clone()), Arc::clone(&written));
    let catalog = Catalog::create(Box::new(counting), NOW).unwrap();
    let note = "x".repeat(3000);
    let mut each = Vec::new();
    for i in 0..1500 {
        let mut new = NewCollection::new(super::schema(false));
        new.properties = pairs(&[("note", &note)]);
        let place = place(&format!("c{i:04}"));
        let before = written.load(Ordering::Relaxed);
        catalog.make(EntryChange::CreateCollection { place, new: Box::new(new) }).unwrap();
        each.push(written.load(Ordering::Relaxed) - before);
    }
    // The file is written anew at times, when it is a third of what there is.
    assert!(store.replaced() > 2, "{} times", store.replaced());
    let median = |of: &[u64]| {
        let mut sorted = of.to_vec();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    let (first, last) = (median(&each[..100]), median(&each[1400..]));
    let mean = each.iter().sum::<u64>() / each.len() as u64;
    println!("bytes a creation: {first} at first, {last} at last, {mean} on average");
    assert!(last < first + 32, "{last} bytes after {first}");
    assert!(mean < 2 * last, "{mean} bytes on average, {last} each");
    assert_eq!(decode(&store.file().unwrap()).unwrap().snapshot, *catalog.snapshot());
}

#[test]
fn what_is_kept_with_an_entry_is_bounded() {
    let (catalog, store) = new_catalog();
    catalog.apply(create("c", false), NOW).unwrap();
    let alter = |key: &str, bytes: usize, remove: &[&str]| EntryChange::AlterCollection {
        place: place("c"),
        set: Properties::from([(key.to_owned(), "x".repeat(bytes))]),
        remove: remove.iter().map(|key| (*key).to_owned()).collect(),
        description: None,
        consistency: None,
    };
    let half = MAX_ENTRY_BYTES / 2;
    catalog.apply(alter("first", half, &[]), NOW).unwrap();
    let before = store.file();
    // Neither at once nor one after the other.
    for (key, bytes) in [("second", half), ("second", MAX_ENTRY_BYTES)] {
        let refused = catalog.apply(alter(key, bytes, &[]), NOW).unwrap_err();
        assert!(matches!(refused, CatalogError::Long { .. }), "{refused}");
        assert_eq!(refused.class(), ErrorClass::FixInput);
    }
    let properties = Properties::from([("first".to_owned(), "x".repeat(MAX_ENTRY_BYTES))]);
    let name = "d".to_owned();
    let refused = catalog.apply(EntryChange::CreateDatabase { name, properties }, NOW);
    assert!(matches!(refused, Err(CatalogError::Long { .. })));
    let mut long = index("vector");
    long.parameters.insert("why".into(), "x".repeat(half));
    let refused = catalog.apply(EntryChange::CreateIndex { place: place("c"), new: long }, NOW);
    assert!(matches!(refused, Err(CatalogError::Long { .. })));
    assert_eq!(store.file(), before);
    // What is taken away makes room.
    catalog.apply(alter("second", half, &["first"]), NOW).unwrap();
}
