//! Opening a database, and clearing away what a crash left.
//!
//! What the catalogue names is there: the directory of a collection is made, durably, before the
//! catalogue names it, and removed after the catalogue has forgotten it. So a directory that no
//! collection has is the rest of a creation or of a drop that was interrupted, and a collection
//! without its directory is damage and never made anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use super::catalog_file::CatalogFile;
use super::{Database, DatabaseError, DatabaseOptions, REPLICA_FILE};
use crate::access::Access;
use crate::catalog::{CATALOG_FILE, Catalog, UnixMs};
use crate::collection::{self, COLLECTIONS_DIR, Home};
use crate::disk::{
    DirectoryLock, Disk, GuardedDisk, Holder, LOCK_NAME, RealDisk, TEMPORARY_SUFFIX, remove_tree,
};
use crate::snapshot::remove_stale_pins;

impl Database {
    /// Opens the database in `path`, or makes an empty one where the directory is missing or
    /// empty. Writes that were not yet in the components are taken from the logs.
    ///
    /// # Errors
    /// [`DatabaseError`]: a directory that is in use (by whom), is no database or cannot be
    /// written; a catalogue or a collection that is damaged; a memory limit under which nothing could
    /// be written. Nothing is changed then that another attempt would miss.
    pub fn open(path: &Path, options: DatabaseOptions) -> Result<Self, DatabaseError> {
        open(path, options)
    }

    /// Opens a database for a simulation: catalogue, logs and live rows are on `disk`, without a
    /// lock; rows are in memory, and vectors in the real directory `files`, which has to be empty.
    /// Both are made from the logs, which are never cut.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_simulated(
        disk: Arc<dyn Disk>,
        files: PathBuf,
        options: DatabaseOptions,
    ) -> Result<Self, DatabaseError> {
        let now = Arc::clone(&options.now);
        let shared = options.shared.then(Arc::default);
        let home = Home { disk, files, row_cache: None, pin: None, shared, now };
        open_home(home, options, None)
    }
}

fn open(path: &Path, options: DatabaseOptions) -> Result<Database, DatabaseError> {
    let directory = |source| DatabaseError::Directory { dir: path.to_owned(), source };
    options.check_limit()?;
    fs::create_dir_all(path).map_err(directory)?;
    let files = path.canonicalize().map_err(directory)?;
    let real: Arc<dyn Disk> = Arc::new(RealDisk::open(&files)?);
    // Before a lock file is put beside somebody else's files.
    check_no_stranger(&*real, path)?;
    check_shared(&*real, path, options.shared)?;
    let UnixMs(now) = (options.now)();
    let lock = Arc::new(DirectoryLock::take(&files, &Holder::this_process(now / 1000))?);
    let disk: Arc<dyn Disk> = Arc::new(GuardedDisk::new(real, &lock));
    if let Err(error) = remove_stale_pins(&files) {
        tracing::warn!("cannot look for pins that were left behind: {error}");
    }
    let now = Arc::clone(&options.now);
    let row_cache = Some(options.row_cache()?);
    let shared = options.shared.then(Arc::default);
    let home = Home { disk, files, row_cache, pin: None, shared, now };
    open_home(home, options, Some(lock))
}

pub(super) fn open_home(
    home: Home,
    options: DatabaseOptions,
    lock: Option<Arc<DirectoryLock>>,
) -> Result<Database, DatabaseError> {
    let mut catalog = open_catalog(&home.disk, (options.now)())?;
    if let Some(leadership) = &home.shared {
        catalog = catalog.shared_by(Arc::clone(leadership));
    }
    let catalog = Arc::new(catalog);
    remove_leftovers(&home, &catalog)?;
    let mut collections = BTreeMap::new();
    for entry in catalog.snapshot().all_collections() {
        let settings = options.collection.clone();
        let named = DatabaseError::of(&entry.name);
        let opened = collection::open(&home, Arc::clone(&catalog), entry, settings);
        let opened = opened.map_err(&named)?;
        if home.shared.is_none() {
            // Where the disk is full nobody could open it to make room.
            if let Err(error) = opened.delete_rows_of_dropped_partitions() {
                tracing::warn!(
                    collection = entry.name,
                    "rows of a dropped partition stay: {error}"
                );
            }
        }
        collections.insert(entry.id, opened);
    }
    let accountant = Arc::clone(&options.collection.accountant);
    let mut access = Access::open(Arc::clone(&home.disk), home.pin.is_none(), accountant)?;
    if let Some(leadership) = &home.shared {
        access = access.shared_by(Arc::clone(leadership));
    }
    let requests = home.shared.as_ref().map(|shared| Arc::clone(shared.requests()));
    let requests = requests.unwrap_or_default();
    let now = Arc::clone(&options.now);
    requests.forget_by(move || now().0);
    Ok(Database {
        home,
        access,
        catalog,
        options,
        collections: RwLock::new(collections),
        changing: Mutex::new(()),
        reader: None,
        requests,
        _lock: lock,
    })
}

/// A directory of one of several servers is not opened by itself, where it would get changes that the
/// others lack; nor one of a single server as if it were of several.
fn check_shared(disk: &dyn Disk, path: &Path, shared: bool) -> Result<(), DatabaseError> {
    let entries = disk.list("")?;
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    let dir = || path.to_owned();
    match (shared, has(REPLICA_FILE)) {
        (false, true) => Err(DatabaseError::OfSeveral { dir: dir() }),
        (true, false) if has(CATALOG_FILE) => Err(DatabaseError::OfOne { dir: dir() }),
        _ => Ok(()),
    }
}

/// Without a catalogue, only what an interrupted first opening leaves may be there.
fn check_no_stranger(disk: &dyn Disk, path: &Path) -> Result<(), DatabaseError> {
    let entries = disk.list("")?;
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    if has(CATALOG_FILE) {
        return Ok(());
    }
    let unfinished = format!("{CATALOG_FILE}{TEMPORARY_SUFFIX}");
    let known = [LOCK_NAME, &unfinished, REPLICA_FILE];
    match entries.iter().find(|entry| !known.contains(&entry.name.as_str())) {
        None => Ok(()),
        Some(stranger) => Err(DatabaseError::NotADatabase {
            dir: path.to_owned(),
            file: CATALOG_FILE,
            found: stranger.name.clone(),
        }),
    }
}

fn open_catalog(disk: &Arc<dyn Disk>, now: UnixMs) -> Result<Catalog, DatabaseError> {
    let store = Box::new(CatalogFile::on(Arc::clone(disk)));
    let entries = disk.list("")?;
    if entries.iter().any(|entry| entry.name == CATALOG_FILE || entry.name == COLLECTIONS_DIR) {
        // Where there are collections and no catalogue, it says that it is missing.
        let path = disk.locate(CATALOG_FILE);
        return Catalog::open(store).map_err(|source| DatabaseError::CatalogFile { path, source });
    }
    Ok(Catalog::create(store, now)?)
}

/// Removes directories that no collection of the catalogue has.
fn remove_leftovers(home: &Home, catalog: &Catalog) -> Result<(), DatabaseError> {
    home.disk.create_dir(COLLECTIONS_DIR)?;
    home.disk.sync_dir("")?;
    let snapshot = catalog.snapshot();
    for entry in home.disk.list(COLLECTIONS_DIR)? {
        let known = snapshot.all_collections().any(|c| c.id.0.to_string() == entry.name);
        // Names that are no number are not ours to remove.
        if entry.is_dir && !known && entry.name.parse::<u64>().is_ok() {
            let dir = format!("{COLLECTIONS_DIR}/{}", entry.name);
            tracing::info!(dir = %home.disk.locate(&dir).display(), "removing an unfinished collection");
            remove_tree(&*home.disk, &dir)?;
        }
    }
    Ok(())
}
