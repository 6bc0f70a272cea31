//! Opening a store, and making one.
//!
//! A new store is made under another name and renamed when it is whole, so that a directory with
//! `STATE` always has both trees: a tree that is missing there was lost, and is not made anew.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lsm_tree::config::{
    BlockSizePolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy,
    RestartIntervalPolicy,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, SequenceNumberCounter,
};

use super::late::Late;
use super::published::Published;
use super::version_check::read_version;
use super::{LsmRows, RowStoreOptions, TreeWriter, tree};
use crate::docstore::StoreError;
use crate::docstore::state_file::{STATE_NAME, StoreState};
use crate::files::{FileLock, LOCK_NAME, hex};

pub(super) const ROWS_NAME: &str = "rows";
pub(super) const KEYS_NAME: &str = "keys";

/// The unit of reading, caching and checking.
const BLOCK_BYTES: u32 = 4096;
/// Entries between two whole keys of a block. Row ids are short, so that each is spelled out and
/// found by bisection; neighbouring keys share prefixes.
const ROWS_RESTART_INTERVAL: u8 = 1;
const KEYS_RESTART_INTERVAL: u8 = 8;

impl LsmRows {
    /// Opens the store in `dir`, or makes an empty one where the directory is missing or empty.
    ///
    /// # Errors
    /// [`StoreError`] tells a store in use, a foreign directory, a newer version, damage, and a
    /// memory limit that is too low apart. A failed creation leaves no store behind.
    pub fn open(dir: &Path, options: &RowStoreOptions) -> Result<Self, StoreError> {
        open(dir, options)
    }
}

fn open(dir: &Path, options: &RowStoreOptions) -> Result<LsmRows, StoreError> {
    if is_missing_or_empty(dir)? {
        create(dir, options)?;
    }
    let lock = lock(dir)?;
    let on_disk = StoreState::read(dir)?
        .ok_or_else(|| StoreError::NoStore { dir: dir.to_owned(), file: STATE_NAME })?;
    if on_disk.collection != options.collection {
        let (expected, found) = (hex(&options.collection), hex(&on_disk.collection));
        return Err(StoreError::Foreign { dir: dir.to_owned(), expected, found });
    }
    for name in [ROWS_NAME, KEYS_NAME] {
        read_version(dir, name)?;
    }
    let batches = SequenceNumberCounter::default();
    let shared = (options.cache.blocks(), options.cache.open_files());
    let (rows, keys) = open_trees(dir, shared, &batches)?;
    let newest = rows.get_highest_persisted_seqno().max(keys.get_highest_persisted_seqno());
    batches.set(newest.map_or(1, |seqno| seqno + 1));
    let writer =
        TreeWriter { counted: on_disk.counted, active_bytes: 0, sealed_bytes: 0, ahead: None };
    Ok(LsmRows {
        dir: dir.to_owned(),
        rows,
        keys,
        published: Published::new(&on_disk, batches.get()),
        batches,
        cache: options.cache.part(),
        open_files: Arc::clone(options.cache.open_files()),
        late: Late::default(),
        writer: Mutex::new(writer),
        on_disk: Mutex::new(on_disk),
        buffer_bytes: options.buffer_bytes,
        _lock: options.lock.then_some(lock),
    })
}

fn is_missing_or_empty(dir: &Path) -> Result<bool, StoreError> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(StoreError::io("open", dir)(e)),
    }
}

/// Makes an empty store beside `dir`, and gives it its name when it is on stable storage.
fn create(dir: &Path, options: &RowStoreOptions) -> Result<(), StoreError> {
    let io_error = |e| StoreError::io("create", dir)(e);
    let mut work = dir.as_os_str().to_owned();
    work.push(".new");
    let work = PathBuf::from(work);
    match fs::remove_dir_all(&work) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(io_error(e)),
    }
    fs::create_dir_all(&work).map_err(io_error)?;
    File::create(work.join(LOCK_NAME)).map_err(io_error)?;
    let shared = (options.cache.blocks(), options.cache.open_files());
    open_trees(&work, shared, &SequenceNumberCounter::default())?;
    StoreState::empty(options.collection).write(&work)?;
    fs::rename(&work, dir).map_err(io_error)?;
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(io_error)
}

fn lock(dir: &Path) -> Result<FileLock, StoreError> {
    let path = dir.join(LOCK_NAME);
    let file = match OpenOptions::new().write(true).open(&path) {
        Ok(file) => file,
        // Only a store without its lock file gets a new one; nothing is put beside foreign files.
        Err(e) if e.kind() == io::ErrorKind::NotFound && dir.join(STATE_NAME).exists() => {
            File::create(&path).map_err(StoreError::io("lock", dir))?
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::NoStore { dir: dir.to_owned(), file: STATE_NAME });
        }
        Err(e) => return Err(StoreError::io("lock", dir)(e)),
    };
    let lock = FileLock::take(file).map_err(StoreError::io("lock", dir))?;
    lock.ok_or_else(|| StoreError::Locked { dir: dir.to_owned() })
}

/// Opens the trees for rows and for keys, which take their numbers from one counter.
fn open_trees(
    dir: &Path,
    (cache, open_files): (&Arc<Cache>, &Arc<DescriptorTable>),
    batches: &SequenceNumberCounter,
) -> Result<(AnyTree, AnyTree), StoreError> {
    let open = |name: &str, restart_interval: u8| {
        // What is visible is decided by `Published`, not by the tree's own counter.
        let config = Config::new(dir.join(name), batches.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::clone(cache))
            .use_descriptor_table(Some(Arc::clone(open_files)))
            .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
            .data_block_restart_interval_policy(RestartIntervalPolicy::all(restart_interval))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            .index_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            // All but the roots of indexes is read through the cache, whose size is granted.
            .index_block_pinning_policy(PinningPolicy::all(false))
            .filter_block_pinning_policy(PinningPolicy::all(false))
            // Rows are asked for by ids that exist, and keys by ranges: a filter helps neither.
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::None));
        tree("open", dir, || config.open())
    };
    Ok((open(ROWS_NAME, ROWS_RESTART_INTERVAL)?, open(KEYS_NAME, KEYS_RESTART_INTERVAL)?))
}
