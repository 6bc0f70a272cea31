//! A recording, played on a disk in memory that knows what is on stable storage.
//!
//! After any number of its events the disk can be asked what a power cut would leave.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;
use pipeann_db::disk::{AppendFile, CrashDisk, Disk, PowerCut};

use crate::adversary::recorder::FileOp;

/// The disk, and what is open on it.
#[derive(Debug, Default)]
pub struct Player {
    disk: CrashDisk,
    files: BTreeMap<String, OpenFile>,
    dirs: BTreeSet<String>,
}

#[derive(Debug)]
struct OpenFile {
    file: Box<dyn AppendFile>,
    bytes: u64,
}

impl Player {
    /// Does what the process did.
    ///
    /// # Errors
    /// A name that is not there.
    pub fn play(&mut self, op: &FileOp) -> anyhow::Result<()> {
        match op {
            FileOp::CreateDir(path) => {
                self.disk.create_dir(path)?;
                self.dirs.insert(path.clone());
            }
            FileOp::RemoveDir(path) => {
                self.disk.remove_dir(path)?;
                self.dirs.remove(path);
            }
            FileOp::Create(path) => {
                if self.files.remove(path).is_some() {
                    self.disk.remove(path)?;
                }
                let file = self.disk.create(path)?;
                self.files.insert(path.clone(), OpenFile { file, bytes: 0 });
            }
            FileOp::Write { path, at, bytes } => {
                let at = at.unwrap_or(self.file(path)?.bytes);
                self.write(path, at, bytes)?;
            }
            FileOp::Extend { path, to } => {
                let from = self.file(path)?.bytes;
                let zeros = to.saturating_sub(from);
                self.write(path, from, &vec![0; usize::try_from(zeros)?])?;
            }
            FileOp::Sync(path) if path.is_empty() || self.dirs.contains(path) => {
                self.disk.sync_dir(path)?;
            }
            FileOp::Sync(path) => self.file(path)?.file.sync()?,
            FileOp::Rename { from, to } => self.rename(from, to)?,
            FileOp::Remove(path) => {
                self.disk.remove(path)?;
                self.files.remove(path);
            }
        }
        Ok(())
    }

    fn write(&mut self, path: &str, at: u64, bytes: &[u8]) -> anyhow::Result<()> {
        self.disk.write_at(path, usize::try_from(at)?, bytes)?;
        let open = self.file(path)?;
        open.bytes = open.bytes.max(at + bytes.len() as u64);
        Ok(())
    }

    fn file(&mut self, path: &str) -> anyhow::Result<&mut OpenFile> {
        self.files.get_mut(path).with_context(|| format!("`{path}` was never created"))
    }

    fn rename(&mut self, from: &str, to: &str) -> anyhow::Result<()> {
        self.disk.rename(from, to)?;
        let inner = |path: &str| path == from || path.starts_with(&format!("{from}/"));
        let moved: Vec<_> = self.files.keys().filter(|path| inner(path)).cloned().collect();
        for path in moved {
            let file = self.files.remove(&path).context("it was just listed")?;
            self.files.insert(format!("{to}{}", &path[from.len()..]), file);
        }
        let moved: Vec<_> = self.dirs.iter().filter(|path| inner(path)).cloned().collect();
        for path in moved {
            self.dirs.remove(&path);
            self.dirs.insert(format!("{to}{}", &path[from.len()..]));
        }
        Ok(())
    }

    /// Makes the directory `dir` what a power cut would leave now.
    ///
    /// # Errors
    /// What cannot be written there.
    pub fn leave(&self, cut: PowerCut, dir: &Path) -> anyhow::Result<()> {
        let after = self.disk.after(cut);
        fs::create_dir_all(dir)?;
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in after.list(&folder)? {
                let path =
                    if folder.is_empty() { entry.name } else { format!("{folder}/{}", entry.name) };
                if entry.is_dir {
                    fs::create_dir(dir.join(&path))?;
                    folders.push(path);
                } else {
                    let mut bytes = vec![0; usize::try_from(entry.bytes)?];
                    after.open(&path)?.read_at(0, &mut bytes)?;
                    fs::write(dir.join(&path), bytes)?;
                }
            }
        }
        Ok(())
    }
}
