//! Restoring backups, and checking them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::backup_file::{BackedUpFile, BackupManifest, FILES_DIR};
use super::capture::work_dir;
use super::error::SnapshotError;
use super::transfer::{
    FileDigest, check_vacant, content, copy, files_below, make_parent, sync_tree,
};

/// Makes a database of the backup in `backup` in the directory `target`, which is missing or
/// empty. Every byte is checked on the way. The backup stays as it is.
///
/// # Errors
/// [`SnapshotError::NotABackup`], [`SnapshotError::Occupied`], [`SnapshotError::Damaged`] with
/// the first damaged file. There is no database in `target` then.
pub fn restore(backup: &Path, target: &Path) -> Result<BackupManifest, SnapshotError> {
    check_vacant(target)?;
    let manifest = BackupManifest::read(backup)?;
    let work = work_dir(target)?;
    for file in &manifest.files {
        let (from, to) = (backup.join(FILES_DIR).join(&file.path), work.path().join(&file.path));
        make_parent(&to)?;
        let copied = copy(&from, &to, u64::MAX).map_err(SnapshotError::file("copy", &from))?;
        if let Some(what) = difference(file, copied) {
            return Err(SnapshotError::Damaged { path: from, what });
        }
    }
    sync_tree(work.path())?;
    work.keep_as(target)?;
    Ok(manifest)
}

/// A file of a backup that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFinding {
    /// The file.
    pub path: PathBuf,
    /// What was found.
    pub what: String,
}

/// Reads all files of a backup, and tells which are not what they were.
///
/// # Errors
/// Where there is no backup, or its manifest is damaged.
pub fn verify_backup(backup: &Path) -> Result<Vec<BackupFinding>, SnapshotError> {
    let manifest = BackupManifest::read(backup)?;
    let files = backup.join(FILES_DIR);
    let mut findings = Vec::new();
    for file in &manifest.files {
        let path = files.join(&file.path);
        let what = match content(&path) {
            Ok(found) => difference(file, found),
            Err(e) => Some(e.to_string()),
        };
        findings.extend(what.map(|what| BackupFinding { path, what }));
    }
    let listed: HashSet<&str> = manifest.files.iter().map(|file| file.path.as_str()).collect();
    for path in files_below(&files)?.iter().filter(|path| !listed.contains(path.as_str())) {
        let what = "the backup does not list it".to_owned();
        findings.push(BackupFinding { path: files.join(path), what });
    }
    Ok(findings)
}

fn difference(file: &BackedUpFile, found: FileDigest) -> Option<String> {
    if file.bytes != found.bytes {
        return Some(format!("{} bytes instead of {}", found.bytes, file.bytes));
    }
    let what =
        || format!("its bytes have the checksum {:032x} instead of {}", found.xxh3, file.xxh3);
    (!file.has(found)).then(what)
}
