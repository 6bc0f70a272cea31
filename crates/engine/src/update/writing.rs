//! The files of a generation under construction: written once from front to back, synced, and
//! named by the manifest last. Notes what was written, and whether the outcome is in doubt.

use std::path::{Path, PathBuf};

use super::error::UpdateError;
use super::files::{Files, NewFile};
use crate::format::constants::{BLOCK_BYTES, MANIFEST_NAME};
use crate::format::{
    BlockChecksums, FileEntry, FileHeader, FileKind, Identity, MANIFEST_WORK_NAME, RelativePath,
    seal_body,
};
use crate::quant::CodesView;

/// Takes a block of a body.
pub(super) type TakeBlockFn<'a> = dyn FnMut(&[u8]) -> Result<(), UpdateError> + 'a;

/// Hands out the blocks of a body.
pub(super) type BlocksFn<'a> = dyn FnMut(&mut TakeBlockFn<'_>) -> Result<(), UpdateError> + 'a;

/// See the module's description.
pub(super) struct Writing<'a> {
    /// Directory of the index.
    pub(super) path: &'a Path,
    pub(super) files: &'a dyn Files,
    pub(super) identity: Identity,
    /// The new generation.
    pub(super) number: u64,
    /// Files created, for removal after a failure.
    pub(super) written: Vec<PathBuf>,
    /// Bytes written to all of them.
    pub(super) bytes: u64,
    /// Whether a sync or the exchange has failed.
    pub(super) doubtful: bool,
}

impl Writing<'_> {
    pub(super) fn publish(&mut self, manifest: &[u8]) -> Result<(), UpdateError> {
        let (from, to) = (self.path.join(MANIFEST_WORK_NAME), self.path.join(MANIFEST_NAME));
        self.write(&from, &[manifest])?;
        self.sync_dir(self.path)?;
        let renamed = self.files.rename(&from, &to);
        self.sure("rename", &from, renamed)?;
        self.sync_dir(self.path)
    }

    /// Hands on the outcome of an operation after whose failure nobody knows what is on disk.
    fn sure(
        &mut self,
        action: &'static str,
        path: &Path,
        outcome: std::io::Result<()>,
    ) -> Result<(), UpdateError> {
        self.doubtful |= outcome.is_err();
        outcome.map_err(UpdateError::file(action, path))
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> Result<(), UpdateError> {
        let synced = self.files.sync_dir(dir);
        self.sure("sync", dir, synced)
    }

    pub(super) fn create(&mut self, path: &Path) -> Result<Box<dyn NewFile>, UpdateError> {
        self.written.push(path.to_owned());
        self.files.create(path).map_err(UpdateError::file("create", path))
    }

    pub(super) fn append(
        &mut self,
        file: &mut dyn NewFile,
        path: &Path,
        bytes: &[u8],
    ) -> Result<(), UpdateError> {
        self.bytes += bytes.len() as u64;
        file.append(bytes).map_err(UpdateError::file("write", path))
    }

    pub(super) fn finish(
        &mut self,
        file: &mut dyn NewFile,
        path: &Path,
    ) -> Result<(), UpdateError> {
        let synced = file.sync();
        self.sure("sync", path, synced)
    }

    /// Writes a whole file of these parts; returns its length.
    pub(super) fn write(&mut self, path: &Path, parts: &[&[u8]]) -> Result<u64, UpdateError> {
        let mut file = self.create(path)?;
        for part in parts {
            self.append(file.as_mut(), path, part)?;
        }
        self.finish(file.as_mut(), path)?;
        Ok(parts.iter().map(|part| part.len() as u64).sum())
    }

    pub(super) fn name(&self, stem: &str) -> Result<RelativePath, UpdateError> {
        Ok(RelativePath::new(&format!("{stem}-{}", self.number))?)
    }

    pub(super) fn whole(
        &mut self,
        dir: &RelativePath,
        stem: &str,
        kind: FileKind,
        body: &[u8],
    ) -> Result<FileEntry, UpdateError> {
        let name = self.name(stem)?;
        let sealed = seal_body(kind, &self.identity, self.number, body);
        let bytes = self.write(&self.path.join(dir.join(&name)), &[&sealed])?;
        Ok(FileEntry { path: name, bytes })
    }

    /// A whole file in the directory of the index.
    pub(super) fn top(
        &mut self,
        stem: &str,
        kind: FileKind,
        body: &[u8],
    ) -> Result<FileEntry, UpdateError> {
        let name = self.name(stem)?;
        let sealed = seal_body(kind, &self.identity, self.number, body);
        let bytes = self.write(&self.path.join(name.as_str()), &[&sealed])?;
        Ok(FileEntry { path: name, bytes })
    }

    fn header(&self, kind: FileKind) -> FileHeader {
        let identity = self.identity;
        FileHeader { kind, identity, generation: self.number, body_bytes: 0, body_checksum: 0 }
    }

    /// A blocked file, whose body `blocks` hands out block by block, each time that it is asked: the
    /// header holds a checksum over all of them, so these are made in a first round.
    pub(super) fn blocked(
        &mut self,
        dir: &RelativePath,
        stem: &str,
        kind: FileKind,
        blocks: &mut BlocksFn<'_>,
    ) -> Result<FileEntry, UpdateError> {
        let name = self.name(stem)?;
        let path = self.path.join(dir.join(&name));
        let mut sums = BlockChecksums::start(self.header(kind));
        blocks(&mut |block| {
            sums.push(block);
            Ok(())
        })?;
        let mut file = self.create(&path)?;
        self.append(file.as_mut(), &path, &sums.encode_head())?;
        blocks(&mut |block| self.append(file.as_mut(), &path, block))?;
        self.append(file.as_mut(), &path, &sums.encode_tail())?;
        self.finish(file.as_mut(), &path)?;
        Ok(FileEntry { path: name, bytes: sums.header().file_bytes() })
    }

    /// Codes of the first `slots` nodes, straight from the table in memory.
    pub(super) fn codes(
        &mut self,
        dir: &RelativePath,
        table: CodesView<'_>,
        slots: u32,
    ) -> Result<FileEntry, UpdateError> {
        let mut block = Vec::with_capacity(BLOCK_BYTES + table.code_bytes());
        let mut blocks = |take: &mut TakeBlockFn<'_>| {
            for node in 0..slots {
                block.extend_from_slice(table.row(node));
                while block.len() >= BLOCK_BYTES {
                    take(&block[..BLOCK_BYTES])?;
                    block.drain(..BLOCK_BYTES);
                }
            }
            if !block.is_empty() {
                take(&block)?;
                block.clear();
            }
            Ok(())
        };
        self.blocked(dir, "codes", FileKind::Codes, &mut blocks)
    }
}
