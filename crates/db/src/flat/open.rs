//! Opening vectors, and making an empty store.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::block::BlockShape;
use super::manifest::{MANIFEST_NAME, SegmentsManifest};
use super::segment::{VectorSegment, file_name};
use super::{FlatError, FlatOptions, FlatVectors, VectorsState};
use crate::files::{FileLock, LOCK_NAME, hex};

impl FlatVectors {
    /// Opens the vectors in `dir`, or makes an empty store where the directory is missing or
    /// empty.
    ///
    /// # Errors
    /// [`FlatError`] tells a store in use, a foreign directory or field, a newer version, damage,
    /// and a memory limit that is too low apart.
    ///
    /// # Panics
    /// For a dimension of zero.
    pub fn open(dir: &Path, options: &FlatOptions) -> Result<Self, FlatError> {
        open(dir, options)
    }
}

fn open(dir: &Path, options: &FlatOptions) -> Result<FlatVectors, FlatError> {
    let shape = BlockShape::new(options.field, options.dim, options.vector_type);
    fs::create_dir_all(dir).map_err(FlatError::io("create", dir))?;
    check_no_stranger(dir)?;
    let lock = lock(dir)?;
    let on_disk = match SegmentsManifest::read(dir)? {
        Some(manifest) => manifest,
        None => {
            let empty = SegmentsManifest::empty(shape);
            empty.write(dir)?;
            if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                let sync = File::open(parent).and_then(|parent| parent.sync_all());
                sync.map_err(FlatError::io("sync", parent))?;
            }
            empty
        }
    };
    if on_disk.shape.field() != options.field {
        let (expected, found) = (hex(&options.field), hex(&on_disk.shape.field()));
        return Err(FlatError::Foreign { path: dir.join(MANIFEST_NAME), expected, found });
    }
    if on_disk.shape != shape {
        let found = (on_disk.shape.dim(), on_disk.shape.vector_type());
        return Err(FlatError::Shape { found, expected: (shape.dim(), shape.vector_type()) });
    }
    let mut segments = Vec::with_capacity(on_disk.segments.len());
    for &entry in &on_disk.segments {
        segments.push(Arc::new(VectorSegment::open(dir, entry, shape, &options.accountant)?));
    }
    remove_leftovers(dir, &on_disk)?;
    let state = VectorsState {
        applied: on_disk.durable,
        durable: on_disk.durable,
        cuts: 0,
        segments: Arc::new(segments),
        sealed: Arc::default(),
        sealed_at: on_disk.durable,
        active: Arc::default(),
    };
    Ok(FlatVectors {
        dir: dir.to_owned(),
        shape,
        tail_bytes: options.tail_bytes,
        state: Mutex::new(state),
        on_disk: Mutex::new(on_disk),
        accountant: Arc::clone(&options.accountant),
        _lock: options.lock.then_some(lock),
    })
}

fn names(dir: &Path) -> Result<Vec<String>, FlatError> {
    let list = || -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect()
    };
    list().map_err(FlatError::io("list", dir))
}

/// Without `FLAT`, only what an interrupted creation leaves may be there.
pub(super) fn check_no_stranger(dir: &Path) -> Result<(), FlatError> {
    let names = names(dir)?;
    let ours = |name: &String| *name == LOCK_NAME || *name == format!("{MANIFEST_NAME}.new");
    if names.iter().any(|name| name == MANIFEST_NAME) || names.iter().all(ours) {
        return Ok(());
    }
    Err(FlatError::NoStore { dir: dir.to_owned(), file: MANIFEST_NAME })
}

/// Removes segments that no manifest lists: what interrupted flushes left.
fn remove_leftovers(dir: &Path, on_disk: &SegmentsManifest) -> Result<(), FlatError> {
    for name in names(dir)? {
        let listed = on_disk.segments.iter().any(|entry| file_name(entry.number) == name);
        if name.starts_with("segment-") && !listed {
            let path = dir.join(name);
            fs::remove_file(&path).map_err(FlatError::io("remove", &path))?;
        }
    }
    Ok(())
}

fn lock(dir: &Path) -> Result<FileLock, FlatError> {
    let path = dir.join(LOCK_NAME);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(FlatError::io("open", &path))?;
    let lock = FileLock::take(file).map_err(FlatError::io("lock", &path))?;
    lock.ok_or_else(|| FlatError::Locked { dir: dir.to_owned() })
}
