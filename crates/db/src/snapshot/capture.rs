//! A whole database, taken at one moment of its catalogue.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::MutexGuard;

use serde::{Deserialize, Serialize};

use super::component;
use super::error::{Missed, SnapshotError, until_still};
use super::log;
use super::transfer::{check_vacant, sync_tree, write_new};
use crate::catalog::{CATALOG_FILE, CollectionEntry, CollectionId, Snapshot};
use crate::collection::{
    AGES_FILE, COLLECTIONS_DIR, CollectionIdentity, LIVE_FILE, LOADS_FILE, LOG_DIR, collection_dir,
    part_of,
};
use crate::disk::{HeldDir, parent_of};
use crate::ids::Seq;

/// What was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Captured {
    /// Revision of the catalogue.
    pub revision: u64,
    /// The collections, by id.
    pub collections: Vec<CapturedCollection>,
}

/// A collection of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapturedCollection {
    /// Its id.
    pub id: CollectionId,
    /// Name of the database it is in.
    pub database: String,
    /// Its name.
    pub name: String,
    /// The last write that is included, with all before it and none behind it.
    pub seq: Seq,
}

/// Keeps a collection's files from being replaced while they are taken, where the one who writes
/// is this process. Without it the files are taken all the same, perhaps in several attempts.
pub(crate) type HoldFiles<'a> = dyn Fn(CollectionId) -> Option<MutexGuard<'a, ()>> + 'a;

/// Takes the database in `source` into the directory `target`, which is missing or empty, and
/// is whole and on stable storage when this returns.
pub(crate) fn capture_kept(
    source: &Path,
    target: &Path,
    hold: &HoldFiles<'_>,
) -> Result<Captured, SnapshotError> {
    check_vacant(target)?;
    let work = work_dir(target)?;
    let captured = capture(source, work.path(), hold)?;
    sync_tree(work.path())?;
    work.keep_as(target)?;
    Ok(captured)
}

/// A directory beside `target` that will be given its name; those that were left there by
/// attempts that did not come to an end are removed.
pub(super) fn work_dir(target: &Path) -> Result<HeldDir, SnapshotError> {
    let name = target.file_name().ok_or_else(|| SnapshotError::Occupied { dir: target.into() })?;
    let prefix = format!("{}.partial-", name.to_string_lossy());
    HeldDir::remove_stale(parent_of(target), &prefix)?;
    Ok(HeldDir::take(parent_of(target), &prefix)?)
}

/// Takes the database in `source` into the empty directory `into`. Nothing is synced.
pub(super) fn capture(
    source: &Path,
    into: &Path,
    hold: &HoldFiles<'_>,
) -> Result<Captured, SnapshotError> {
    until_still(|| {
        let snapshot = read_catalog(source)?;
        let inner = into.join(COLLECTIONS_DIR);
        clear(&inner)?;
        fs::create_dir(&inner).map_err(SnapshotError::file("create", &inner))?;
        let mut collections = Vec::new();
        for entry in snapshot.all_collections() {
            let held = hold(entry.id);
            let seq = until_still(|| take_collection(source, into, entry));
            drop(held);
            let seq = match seq {
                Ok(seq) => seq,
                // A collection that was dropped meanwhile is no error of it.
                Err(error) if read_catalog(source)? != snapshot => {
                    return Err(Missed::Moved(error));
                }
                Err(error) => return Err(Missed::Failed(error)),
            };
            let database = snapshot.databases().find(|(_, d)| d.id == entry.database);
            let (database, _) = database.expect("a collection's database is in its catalogue");
            collections.push(CapturedCollection {
                id: entry.id,
                database: database.to_owned(),
                name: entry.name.clone(),
                seq,
            });
        }
        // So no row is in a log under a schema that the catalogue does not have.
        if read_catalog(source)? != snapshot {
            return Err(Missed::Moved(SnapshotError::Busy { path: source.join(CATALOG_FILE) }));
        }
        write_new(&into.join(CATALOG_FILE), &snapshot.to_file_bytes())?;
        Ok(Captured { revision: snapshot.revision(), collections })
    })
}

/// What the catalogue says. A change of which a part was written so far is not in it.
fn read_catalog(source: &Path) -> Result<Snapshot, SnapshotError> {
    let path = source.join(CATALOG_FILE);
    let bytes = fs::read(&path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            SnapshotError::NotADatabase { dir: source.to_owned(), file: CATALOG_FILE }
        }
        _ => SnapshotError::file("read", &path)(e),
    })?;
    Ok(Snapshot::from_file_bytes(&bytes)?)
}

fn take_collection(source: &Path, into: &Path, entry: &CollectionEntry) -> Result<Seq, Missed> {
    let dir = collection_dir(entry.id);
    let (from, into) = (source.join(&dir), into.join(&dir));
    clear(&into)?;
    fs::create_dir(&into).map_err(SnapshotError::file("create", &into))?;
    let identity = CollectionIdentity { id: entry.id, created: entry.created };
    let loads = from.join(LOADS_FILE);
    let before = read_loads(&loads)?;
    let log = log::link(&from, &into, identity.log())?;
    let list = || fs::read_dir(&from)?.collect::<io::Result<Vec<_>>>();
    for entry in list().map_err(SnapshotError::file("list", &from)).map_err(Missed::moved)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(part) = part_of(&name) {
            component::take(part, &from.join(&name), &into.join(&name))?;
        } else if name == LIVE_FILE || name == AGES_FILE {
            component::take_file(&from.join(&name), &into.join(&name))?;
        } else if name != LOG_DIR && name != LOADS_FILE {
            tracing::debug!(name, "left out of a snapshot");
        }
    }
    let seq = log.finish()?;
    // A batch of a bulk load is announced before it is logged: what is announced and the end of
    // the log are of one moment, so that whoever opens them finds whether the batch is there.
    if read_loads(&loads)? != before {
        return Err(Missed::Moved(SnapshotError::Busy { path: loads }));
    }
    if let Some(bytes) = before {
        write_new(&into.join(LOADS_FILE), &bytes)?;
    }
    Ok(seq)
}

fn read_loads(path: &Path) -> Result<Option<Vec<u8>>, SnapshotError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(SnapshotError::file("read", path)(e)),
    }
}

fn clear(dir: &Path) -> Result<(), SnapshotError> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(SnapshotError::file("clear", dir)(e)),
        _ => Ok(()),
    }
}
