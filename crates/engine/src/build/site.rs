//! Where an index is built: a directory beside the one asked for, renamed when it is complete.
//!
//! An interrupted build leaves at most `NAME.tmp-PID` (after a kill or a power cut), which has
//! no manifest or is not under the name anyone opens; the next build of that name removes it. A
//! failed or cancelled one removes it itself. An index that is replaced stays whole until the
//! exchange, which is one rename; it is not replaced where somebody put other files beside it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::BuildError;
use super::mounted::is_mounted;
use super::work_dir::WorkDir;
use crate::format::constants::MANIFEST_NAME;
use crate::format::{MANIFEST_WORK_NAME, is_of_generation, is_of_index, is_partition};

/// A directory under construction; removed when dropped before [`publish`](Self::publish).
pub(crate) struct Site {
    target: PathBuf,
    parent: PathBuf,
    /// `None` once it has the name asked for.
    work: Option<WorkDir>,
    replaces: bool,
}

impl Site {
    /// Prepares the directory beside `dir`, having checked that `dir` may be taken and that
    /// the disk has room for `needed` bytes.
    pub(crate) fn open(dir: &Path, overwrite: bool, needed: u64) -> Result<Self, BuildError> {
        let target = std::path::absolute(dir).map_err(BuildError::io("resolve", dir))?;
        let target = fs::canonicalize(&target).unwrap_or(target);
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(BuildError::Occupied { dir: target });
        };
        let replaces = match fs::read_dir(&target).map(|mut entries| entries.next().is_none()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                return Err(BuildError::Occupied { dir: dir.to_owned() });
            }
            Err(e) => return Err(BuildError::io("list", dir)(e)),
            Ok(true) => {
                refuse_mounted(&target, parent)?;
                false
            }
            Ok(false) if !target.join(MANIFEST_NAME).exists() => {
                return Err(BuildError::Occupied { dir: dir.to_owned() });
            }
            Ok(false) if !overwrite => return Err(BuildError::Exists { dir: dir.to_owned() }),
            Ok(false) => {
                refuse_mounted(&target, parent)?;
                refuse_strangers(&target)?;
                true
            }
        };
        fs::create_dir_all(parent).map_err(BuildError::io("create", parent))?;
        let work = Some(WorkDir::make(parent, name)?);
        let site = Self { parent: parent.to_owned(), target: target.clone(), work, replaces };
        site.check_space(needed)?;
        Ok(site)
    }

    /// Refuses where the disk has no room for `needed` bytes.
    pub(crate) fn check_space(&self, needed: u64) -> Result<(), BuildError> {
        let stat = rustix::fs::statvfs(&self.parent)
            .map_err(|e| BuildError::io("ask for the free space of", &self.parent)(e.into()))?;
        let available = stat.f_bavail.saturating_mul(stat.f_frsize);
        if available < needed {
            return Err(BuildError::NoSpace { dir: self.target.clone(), needed, available });
        }
        Ok(())
    }

    /// Where a file stands until the site is published.
    fn place(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    fn dir(&self) -> &Path {
        self.work.as_ref().map_or(&self.target, |work| &work.path)
    }

    /// Creates the directory of a partition.
    pub(crate) fn create_dir(&self, name: &str) -> Result<(), BuildError> {
        let path = self.place(name);
        fs::create_dir(&path).map_err(BuildError::io("create", &path))
    }

    /// Creates a file of `bytes` bytes, with its space reserved.
    pub(crate) fn create(&self, name: &str, bytes: u64) -> Result<SiteFile, BuildError> {
        let path = self.place(name);
        let file = File::create_new(&path).map_err(BuildError::io("create", &path))?;
        let file = SiteFile { file, path, dir: self.target.clone(), reserved: bytes };
        file.reserve()?;
        Ok(file)
    }

    /// A file to write to and read from that has no name, and goes when it is closed.
    pub(crate) fn scratch(&self, name: &str) -> Result<(File, PathBuf), BuildError> {
        let path = self.place(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(BuildError::io("create", &path))?;
        fs::remove_file(&path).map_err(BuildError::io("remove", &path))?;
        Ok((file, path))
    }

    /// Writes a whole file.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<u64, BuildError> {
        let mut file = self.create(name, bytes.len() as u64)?;
        file.append(bytes)?;
        file.finish()?;
        Ok(bytes.len() as u64)
    }

    /// Makes a directory's entries durable.
    pub(crate) fn sync_dir(&self, name: &str) -> Result<(), BuildError> {
        sync_dir(&self.place(name))
    }

    /// Writes the manifest last, then gives the directory its name.
    pub(crate) fn publish(mut self, manifest: &[u8]) -> Result<(), BuildError> {
        self.write(MANIFEST_WORK_NAME, manifest)?;
        let (from, to) = (self.place(MANIFEST_WORK_NAME), self.place(MANIFEST_NAME));
        fs::rename(&from, &to).map_err(BuildError::io("rename", &from))?;
        sync_dir(self.dir())?;
        if self.replaces {
            // Builds take hours, in which somebody may have put something there.
            refuse_strangers(&self.target)?;
        }
        self.exchange()?;
        sync_dir(&self.parent)?;
        let Some(work) = self.work.take() else { return Ok(()) };
        if self.replaces {
            // The work directory's name now holds the old index.
            fs::remove_dir_all(&work.path).map_err(BuildError::io("remove", &work.path))?;
        }
        Ok(())
    }

    fn exchange(&self) -> Result<(), BuildError> {
        let work = self.dir();
        if !self.replaces {
            return fs::rename(work, &self.target)
                .map_err(BuildError::io("rename to", &self.target));
        }
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let swapped = renameat_with(CWD, work, CWD, &self.target, RenameFlags::EXCHANGE);
            if swapped.is_ok() {
                return Ok(());
            }
        }
        // No exchange on this file system: a short moment without an index under the name.
        let mut aside = work.as_os_str().to_owned();
        aside.push("-old");
        let aside = PathBuf::from(aside);
        let rename =
            |from: &Path, to: &Path| fs::rename(from, to).map_err(BuildError::io("rename to", to));
        rename(&self.target, &aside)?;
        if let Err(e) = rename(work, &self.target) {
            rename(&aside, &self.target)?;
            return Err(e);
        }
        rename(&aside, work)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            // Best effort: the error that led here is the one to report.
            if let Err(e) = fs::remove_dir_all(&work.path) {
                tracing::warn!(dir = %work.path.display(), "cannot remove a partial build: {e}");
            }
        }
    }
}

/// Refuses a directory that no rename puts another in the place of.
fn refuse_mounted(dir: &Path, parent: &Path) -> Result<(), BuildError> {
    match is_mounted(dir, parent) {
        Ok(false) => Ok(()),
        Ok(true) => Err(BuildError::MountPoint { dir: dir.to_owned() }),
        Err(e) => Err(BuildError::io("look at", dir)(e)),
    }
}

/// Refuses an index in whose directory is what no index has: it would go with the index.
fn refuse_strangers(index: &Path) -> Result<(), BuildError> {
    let look = |dir: &Path, is_ours: fn(&str) -> bool| {
        let mut partitions = Vec::new();
        for entry in fs::read_dir(dir).map_err(BuildError::io("list", dir))? {
            let entry = entry.map_err(BuildError::io("list", dir))?;
            let is_dir = entry.file_type().map_err(BuildError::io("look at", dir))?.is_dir();
            let file_name = entry.file_name();
            let name = file_name.to_str().filter(|name| is_ours(name));
            if name.is_none_or(|name| is_dir != is_partition(name)) {
                return Err(BuildError::Stranger { dir: index.to_owned(), path: entry.path() });
            }
            partitions.extend(is_dir.then(|| entry.path()));
        }
        Ok(partitions)
    };
    for partition in look(index, is_of_index)? {
        look(&partition, is_of_generation)?;
    }
    Ok(())
}

fn sync_dir(path: &Path) -> Result<(), BuildError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(BuildError::io("sync", path))
}

/// A file of a [`Site`], written from front to back.
pub(crate) struct SiteFile {
    file: File,
    path: PathBuf,
    dir: PathBuf,
    reserved: u64,
}

impl SiteFile {
    fn reserve(&self) -> Result<(), BuildError> {
        #[cfg(target_os = "linux")]
        if self.reserved > 0 {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            match fallocate(&self.file, FallocateFlags::empty(), 0, self.reserved) {
                // Where space cannot be reserved, writing will tell.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                Err(e) => return Err(self.refused("reserve space for", e.into())),
            }
        }
        Ok(())
    }

    fn refused(&self, action: &'static str, source: io::Error) -> BuildError {
        if !matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return BuildError::io(action, &self.path)(source);
        }
        let available =
            rustix::fs::fstatvfs(&self.file).map_or(0, |s| s.f_bavail.saturating_mul(s.f_frsize));
        BuildError::NoSpace { dir: self.dir.clone(), needed: self.reserved, available }
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), BuildError> {
        self.file.write_all(bytes).map_err(|e| self.refused("write", e))
    }

    /// Puts the file on stable storage.
    pub(crate) fn finish(self) -> Result<(), BuildError> {
        self.file.sync_all().map_err(|e| self.refused("sync", e))
    }
}
