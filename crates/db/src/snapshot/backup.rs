//! Making backups.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::backup_file::{BackedUpFile, BackupManifest, FILES_DIR};
use super::capture::{Captured, HoldFiles, work_dir};
use super::error::SnapshotError;
use super::pin::pinned;
use super::transfer::{check_vacant, content, copy, files_below, make_parent, sync_tree};
use crate::catalog::UnixMs;

/// How a backup is made.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// An earlier backup of the same database. Files that it has are not written again: they get
    /// second names where both backups are on one file system, so each stays whole without the
    /// other.
    pub since: Option<PathBuf>,
    /// Where the state that is being copied is kept meanwhile; in the database's directory unless
    /// given. On another file system it is a copy.
    pub pins: Option<PathBuf>,
    /// The time, for people.
    pub now: UnixMs,
}

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// What it holds.
    pub manifest: BackupManifest,
    /// Paths of files that were copied, not linked from the earlier backup.
    pub copied: Vec<String>,
    /// Bytes of these.
    pub copied_bytes: u64,
}

/// Makes a backup of the database in `source` in the directory `target`, whose parent exists.
/// Whoever has the database open goes on meanwhile: the backup holds the state of a moment.
///
/// # Errors
/// [`SnapshotError`]; there is no backup then.
pub fn backup_directory(
    source: &Path,
    target: &Path,
    options: &BackupOptions,
) -> Result<BackupReport, SnapshotError> {
    backup(source, target, options, &|_| None)
}

/// [`backup_directory`], by the process that writes.
pub(crate) fn backup(
    source: &Path,
    target: &Path,
    options: &BackupOptions,
    hold: &HoldFiles<'_>,
) -> Result<BackupReport, SnapshotError> {
    check_vacant(target)?;
    let since = options.since.as_deref().map(Earlier::open).transpose()?;
    let work = work_dir(target)?;
    let (pin, captured) = pinned(source, options.pins.as_deref(), hold)?;
    let report = copy_all(pin.path(), work.path(), captured, options.now, since.as_ref())?;
    sync_tree(work.path())?;
    work.keep_as(target)?;
    Ok(report)
}

fn copy_all(
    from: &Path,
    into: &Path,
    database: Captured,
    created: UnixMs,
    since: Option<&Earlier>,
) -> Result<BackupReport, SnapshotError> {
    let (mut files, mut copied, mut copied_bytes) = (Vec::new(), Vec::new(), 0);
    for path in files_below(from)? {
        let (source, to) = (from.join(&path), into.join(FILES_DIR).join(&path));
        make_parent(&to)?;
        let linked = since.map_or(Ok(None), |since| since.link(&path, &source, &to))?;
        files.push(match linked {
            Some(file) => file,
            None => {
                let content = copy(&source, &to, u64::MAX);
                let content = content.map_err(SnapshotError::file("copy", &source))?;
                copied.push(path.clone());
                copied_bytes += content.bytes;
                BackedUpFile::new(path, content)
            }
        });
    }
    let manifest = BackupManifest { created, database, files };
    manifest.write(into)?;
    Ok(BackupReport { manifest, copied, copied_bytes })
}

/// An earlier backup.
struct Earlier {
    dir: PathBuf,
    files: HashMap<String, BackedUpFile>,
}

impl Earlier {
    fn open(dir: &Path) -> Result<Self, SnapshotError> {
        let files = BackupManifest::read(dir)?.files;
        let files = files.into_iter().map(|file| (file.path.clone(), file)).collect();
        Ok(Self { dir: dir.join(FILES_DIR), files })
    }

    /// Gives the file of this path the second name `to`, if its bytes are those of `source`.
    /// These are read and compared by checksum: a name alone proves nothing, since one that a
    /// crash left unused is given again.
    fn link(
        &self,
        path: &str,
        source: &Path,
        to: &Path,
    ) -> Result<Option<BackedUpFile>, SnapshotError> {
        let Some(file) = self.files.get(path) else { return Ok(None) };
        let bytes = |path: &Path| fs::metadata(path).map(|about| about.len());
        let source_bytes = bytes(source).map_err(SnapshotError::file("measure", source))?;
        let earlier = self.dir.join(path);
        // Where the earlier file is damaged by its length already, or missing, a copy helps.
        if source_bytes != file.bytes || bytes(&earlier).ok() != Some(file.bytes) {
            return Ok(None);
        }
        let found = content(source).map_err(SnapshotError::file("read", source))?;
        let linked = file.has(found) && fs::hard_link(&earlier, to).is_ok();
        Ok(linked.then(|| file.clone()))
    }
}
