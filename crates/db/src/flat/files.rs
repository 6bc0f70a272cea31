//! Which files the vectors of a field consist of, read beside whoever has them open.

use std::fs;
use std::io;
use std::path::Path;

use super::FlatError;
use super::manifest::{MANIFEST_NAME, SegmentsManifest};
use super::open::check_no_stranger;
use super::segment::file_name;
use crate::disk::{FileSet, ImmutableFile};

/// The files of the vectors in `dir` as they stand, whoever has them open; `None` where there are
/// none. They are of one moment if a second look finds the same.
///
/// # Errors
/// A damaged or newer list of segments, or one that cannot be read.
pub fn current_files(dir: &Path) -> Result<Option<FileSet>, FlatError> {
    let path = dir.join(MANIFEST_NAME);
    let bytes = match fs::read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // What an interrupted creation leaves may be there, and no segments.
            return check_no_stranger(dir).map(|()| None);
        }
        bytes => bytes.map_err(FlatError::io("read", &path))?,
    };
    let segments = SegmentsManifest::decode(&bytes, &path)?.segments;
    let named = segments.iter().map(|s| ImmutableFile { path: file_name(s.number), xxh3: None });
    let named = named.collect();
    Ok(Some(FileSet { manifests: vec![(MANIFEST_NAME.to_owned(), bytes)], named }))
}
