//! Which files the indexes consist of, read beside whoever has them open, and whether they are
//! whole.

use std::fs;
use std::io;
use std::path::Path;

use pipeann_engine::memory::Accountant;

use super::ScalarError;
use super::entries::EntryReader;
use super::manifest::{MANIFEST_NAME, RunsManifest};
use super::run::{Run, file_name};
use crate::disk::{FileSet, ImmutableFile};

/// The files of the indexes in `dir` as they stand, whoever has them open; `None` where there are
/// none. They are of one moment if a second look finds the same.
///
/// # Errors
/// A damaged or newer list of runs, or one that cannot be read.
pub fn current_files(dir: &Path) -> Result<Option<FileSet>, ScalarError> {
    let path = dir.join(MANIFEST_NAME);
    let bytes = match fs::read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(ScalarError::io("read", &path))?,
    };
    let runs = RunsManifest::decode(&bytes, &path)?.runs;
    let named =
        runs.iter().map(|run| ImmutableFile { path: file_name(*run), xxh3: None }).collect();
    Ok(Some(FileSet { manifests: vec![(MANIFEST_NAME.to_owned(), bytes)], named }))
}

/// Reads everything in `dir`, and says what is not as it was written; nothing where there are no
/// indexes. Nothing may be flushed meanwhile.
#[must_use]
pub fn damaged_files(dir: &Path) -> Vec<String> {
    let manifest = match RunsManifest::read(dir) {
        Ok(None) => return Vec::new(),
        Ok(Some(manifest)) => manifest,
        Err(error) => return vec![error.to_string()],
    };
    let checked = manifest.runs.iter().map(|&number| check(dir, number, manifest.collection));
    checked.filter_map(|checked| checked.err().map(|error| error.to_string())).collect()
}

fn check(dir: &Path, number: u64, collection: [u8; 16]) -> Result<(), ScalarError> {
    let run = Run::open(dir, number, collection, &Accountant::new(None))?;
    let mut buffer = Vec::new();
    for (column, of) in run.columns().iter().enumerate() {
        run.read_signatures(column)?;
        for block in 0..of.blocks.len() {
            let mut entries = EntryReader::new(run.block(column, block, &mut buffer)?, run.map());
            while entries.next().map_err(|_| run.bad_entry())?.is_some() {}
        }
    }
    Ok(())
}
