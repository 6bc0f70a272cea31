//! The file `CATALOG`, on a disk.

use std::io;
use std::sync::Arc;

use crate::catalog::{CATALOG_FILE, CatalogStore, SaveError};
use crate::disk::{Action, AppendFile, Disk, read_file, replace_file_to_append};

/// More than a catalogue can have.
const MAX_CATALOG_BYTES: u64 = 1 << 30;

/// Keeps the catalogue in the directory of the database.
#[derive(Debug)]
pub(super) struct CatalogFile {
    disk: Arc<dyn Disk>,
    /// The file that was put there last, and its length.
    open: Option<(Box<dyn AppendFile>, u64)>,
}

impl CatalogFile {
    pub(super) fn on(disk: Arc<dyn Disk>) -> Self {
        Self { disk, open: None }
    }

    /// Whether the file is shorter than `bytes`, for certain.
    fn is_shorter(&self, bytes: u64) -> bool {
        let found = self.disk.open(CATALOG_FILE).and_then(|file| file.bytes());
        found.is_ok_and(|found| found < bytes)
    }
}

impl CatalogStore for CatalogFile {
    fn load(&mut self) -> io::Result<Option<Vec<u8>>> {
        match read_file(&*self.disk, CATALOG_FILE, MAX_CATALOG_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        // No two are open at once.
        self.open = None;
        let replaced = replace_file_to_append(&*self.disk, CATALOG_FILE, bytes);
        let file = replaced.map_err(|error| match error.action() {
            // From the rename on, the new file may be the one that is found.
            Some(Action::Rename | Action::SyncDir) => SaveError::Unknown(io::Error::other(error)),
            _ => SaveError::Unchanged(io::Error::other(error)),
        })?;
        self.open = Some((file, bytes.len() as u64));
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        let (file, length) = self.open.take().expect("a file is replaced before it is added to");
        let length = length + bytes.len() as u64;
        file.append(bytes).map_err(|error| match self.is_shorter(length) {
            true => SaveError::Unchanged(io::Error::other(error)),
            false => SaveError::Unknown(io::Error::other(error)),
        })?;
        file.sync().map_err(|error| SaveError::Unknown(io::Error::other(error)))?;
        self.open = Some((file, length));
        Ok(())
    }

    fn note(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (file, length) = self.open.take().expect("a file is replaced before it is added to");
        file.append(bytes).map_err(io::Error::other)?;
        self.open = Some((file, length + bytes.len() as u64));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalog::{
        Catalog, CatalogError, CollectionPath, EntryChange, MemoryStore, NewCollection, Properties,
        Snapshot, UnixMs,
    };
    use crate::disk::{CrashDisk, FaultKind, PlannedFault, PowerCut};
    use crate::schema::{FieldSpec, Schema};
    use crate::value::{DataType, ScalarType, VectorKind};

    const NOW: UnixMs = UnixMs(1_000);

    fn place(name: &str) -> CollectionPath {
        CollectionPath::new("default", name)
    }

    fn create(name: &str) -> EntryChange {
        let schema = Schema::builder()
            .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
            .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(4))
            .build()
            .unwrap();
        let new = Box::new(NewCollection::new(schema));
        EntryChange::CreateCollection { place: place(name), new }
    }

    /// Changes among which the file is written anew, since some are long.
    fn script() -> Vec<EntryChange> {
        let long = |i: usize| {
            let set = Properties::from([("note".to_owned(), i.to_string().repeat(300_000))]);
            let (place, remove) = (place("a"), Vec::new());
            EntryChange::AlterCollection {
                place,
                set,
                remove,
                description: None,
                consistency: None,
            }
        };
        let mut changes = vec![create("a"), create("b")];
        changes.push(EntryChange::CreateAlias { place: place("a"), alias: "x".into() });
        changes.extend((1..6).map(long));
        changes.push(EntryChange::DropCollection { place: place("b") });
        changes.push(create("c"));
        changes
    }

    /// All states that [`script`] leads through, the first one first.
    fn states() -> Vec<Arc<Snapshot>> {
        let store = MemoryStore::default();
        let catalog = Catalog::create(Box::new(store.clone()), NOW).unwrap();
        let mut states = vec![catalog.snapshot()];
        for change in script() {
            catalog.apply(change, NOW).unwrap();
            states.push(catalog.snapshot());
        }
        assert_eq!(store.replaced(), 2, "it was written anew on the way");
        states
    }

    fn on(disk: &CrashDisk) -> Box<CatalogFile> {
        Box::new(CatalogFile::on(Arc::new(disk.clone())))
    }

    /// Makes the changes until one fails: how many states were answered.
    fn run(disk: &CrashDisk) -> usize {
        let Ok(catalog) = Catalog::create(on(disk), NOW) else { return 0 };
        let made = script().into_iter().take_while(|c| catalog.apply(c.clone(), NOW).is_ok());
        1 + made.count()
    }

    /// Fails unless what is there is what was answered last, or one more; says which.
    fn assert_kept(disk: &CrashDisk, answered: usize, states: &[Arc<Snapshot>], context: &str) {
        let catalog = match Catalog::open(on(disk)) {
            Err(CatalogError::Missing) if answered == 0 => return,
            opened => opened.unwrap_or_else(|error| panic!("{context}: {error}")),
        };
        let found = states.iter().position(|state| *state == catalog.snapshot());
        let found = found.unwrap_or_else(|| panic!("{context}: a state that never was"));
        let (least, most) = (answered.saturating_sub(1), answered);
        assert!((least..=most).contains(&found), "{context}: {found} after {answered}");
        // What was seen once stays, and what comes behind it is kept.
        assert_eq!(
            Catalog::open(on(&disk.after(PowerCut::Drop))).unwrap().snapshot(),
            states[found]
        );
        for name in ["later", "latest"] {
            catalog.apply(create(name), NOW).unwrap_or_else(|error| panic!("{context}: {error}"));
            for cut in [PowerCut::Drop, PowerCut::Torn(found as u64)] {
                let again = Catalog::open(on(&disk.after(cut))).unwrap();
                assert_eq!(again.snapshot(), catalog.snapshot(), "{context}, then {cut:?}");
            }
        }
    }

    #[test]
    fn a_power_cut_at_every_operation_loses_nothing_answered() {
        let states = states();
        let whole = CrashDisk::new();
        assert_eq!(run(&whole), states.len());
        for operation in 1..=whole.operations() {
            let disk = CrashDisk::new();
            disk.inject(PlannedFault { operation, kind: FaultKind::PowerOff });
            let answered = run(&disk);
            let torn = (0..4).map(|i| PowerCut::Torn(operation * 10 + i));
            for cut in torn.chain([PowerCut::Drop, PowerCut::Keep]) {
                let context = format!("operation {operation}, {cut:?}");
                assert_kept(&disk.after(cut), answered, &states, &context);
            }
        }
    }

    #[test]
    fn a_power_cut_at_every_operation_of_an_opening_loses_nothing() {
        let states = states();
        let whole = CrashDisk::new();
        run(&whole);
        let mut interrupted = 0;
        for operation in (1..=whole.operations()).step_by(2) {
            let disk = CrashDisk::new();
            disk.inject(PlannedFault { operation, kind: FaultKind::PowerOff });
            let answered = run(&disk);
            let left = disk.after(PowerCut::Keep);
            for second in 1.. {
                let again = left.after(PowerCut::Keep);
                again.inject(PlannedFault { operation: second, kind: FaultKind::PowerOff });
                if Catalog::open(on(&again)).is_ok() || answered == 0 {
                    break;
                }
                interrupted += 1;
                for cut in [PowerCut::Torn(second), PowerCut::Drop] {
                    let context = format!("operation {operation}, opening {second}, {cut:?}");
                    assert_kept(&again.after(cut), answered, &states, &context);
                }
            }
        }
        assert!(interrupted > 20, "{interrupted} openings were interrupted");
    }

    #[test]
    fn every_operation_that_fails_is_told_and_changes_nothing_or_stops() {
        let states = states();
        let whole = CrashDisk::new();
        run(&whole);
        for kind in [FaultKind::NoSpace, FaultKind::Io, FaultKind::ShortWrite] {
            for operation in 1..=whole.operations() {
                let disk = CrashDisk::new();
                disk.inject(PlannedFault { operation, kind });
                let Ok(catalog) = Catalog::create(on(&disk), NOW) else { continue };
                let context = format!("{kind:?} at operation {operation}");
                for (i, change) in script().into_iter().enumerate() {
                    match catalog.apply(change.clone(), NOW) {
                        Ok(_) => {}
                        Err(CatalogError::NotSaved(_)) => {
                            catalog.apply(change, NOW).unwrap_or_else(|e| panic!("{context}: {e}"));
                        }
                        Err(CatalogError::Unknown(_)) => break,
                        Err(other) => panic!("{context}: {other}"),
                    }
                    assert_eq!(catalog.snapshot(), states[i + 1], "{context}");
                    let durable = Catalog::open(on(&disk.after(PowerCut::Drop))).unwrap();
                    assert_eq!(durable.snapshot(), states[i + 1], "{context}");
                }
            }
        }
    }
}
