//! One component of a collection, taken at one moment.
//!
//! The files that name others are read, the others linked, and the first read again. Numbers in
//! them only grow, so where they are the same, nothing was replaced in between, and all belong
//! to the moment in which the links were made.

use std::fs;
use std::io;
use std::path::Path;

use pipeann_engine::format::Manifest;
use pipeann_engine::format::constants::MANIFEST_NAME;

use super::error::{Missed, SnapshotError};
use super::transfer::{link_or_copy, make_parent, write_new};
use crate::collection::Component;
use crate::disk::{FileSet, ImmutableFile};
use crate::{docstore, flat, scalar};

/// Takes the component in `from`, of the kind `part`, into the directory `into`, which is not
/// there yet. A component that is still being made is left out: opening makes it from the log.
pub(super) fn take(part: Component, from: &Path, into: &Path) -> Result<(), Missed> {
    let Some(files) = current_files(part, from).map_err(Missed::moved)? else { return Ok(()) };
    for ImmutableFile { path, .. } in &files.named {
        let (from, to) = (from.join(path), into.join(path));
        make_parent(&to)?;
        take_file(&from, &to)?;
    }
    let again = current_files(part, from).map_err(Missed::moved)?;
    if again.is_none_or(|again| again.manifests != files.manifests) {
        return Err(Missed::Moved(SnapshotError::Busy { path: from.to_owned() }));
    }
    for (path, bytes) in &files.manifests {
        write_new(&into.join(path), bytes)?;
    }
    Ok(())
}

/// Takes a file that never changes but may be removed.
pub(super) fn take_file(from: &Path, to: &Path) -> Result<(), Missed> {
    link_or_copy(from, to).map_err(|e| {
        let gone = e.kind() == io::ErrorKind::NotFound;
        let error = SnapshotError::file("link", from)(e);
        if gone { Missed::Moved(error) } else { Missed::Failed(error) }
    })
}

fn current_files(part: Component, dir: &Path) -> Result<Option<FileSet>, SnapshotError> {
    Ok(match part {
        Component::Rows => docstore::current_files(dir)?,
        Component::Scalars => scalar::current_files(dir)?,
        Component::Vectors => flat::current_files(dir)?,
        Component::Index => index_files(dir)?,
    })
}

/// The files of the generation that an index directory of the engine has.
fn index_files(dir: &Path) -> Result<Option<FileSet>, SnapshotError> {
    let path = dir.join(MANIFEST_NAME);
    let bytes = match fs::read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(SnapshotError::file("read", &path))?,
    };
    let manifest =
        Manifest::decode(&bytes).map_err(|source| SnapshotError::Index { path, source })?;
    let named = manifest.files().into_iter();
    let named = named.map(|file| ImmutableFile { path: file.path, xxh3: None }).collect();
    Ok(Some(FileSet { manifests: vec![(MANIFEST_NAME.to_owned(), bytes)], named }))
}
