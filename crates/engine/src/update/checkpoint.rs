//! The next generation: changes folded into pages, new files, and the manifest swapped last.
//!
//! Everything is written under names of the new generation and put on stable storage before the
//! manifest takes its place by one rename; so a crash at any point leaves the generation before
//! or the new one. Files that only the old generation names are removed after that. Searches
//! under way hold them open and end on the old generation; so does another process that has
//! opened it. One that reads the manifest just before the exchange may miss a file, and opens
//! again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::error::UpdateError;
use super::files::{Files, NewFile};
use super::fold::Fold;
use super::generation::Generation;
use super::images::{Images, PageReader};
use super::live::{LiveIndex, open_generation};
use super::segments::{SegmentPlan, plan};
use super::strays::{MANIFEST_WORK_NAME, remove_strays};
use crate::format::constants::{ABSENT, BLOCK_BYTES, MANIFEST_NAME};
use crate::format::{
    BlockChecksums, FileEntry, FileHeader, FileKind, HeadParameters, HeadParts, Manifest,
    PartitionEntry, RelativePath, SegmentEntry, encode_map, seal_body,
};
use crate::index::read_manifest;
use crate::types::PageId;

/// What a checkpoint has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// The new generation.
    pub generation: u64,
    /// Pages with changes, fresh ones included.
    pub changed_pages: u64,
    /// Pages copied out of segments that were mostly dead.
    pub copied_pages: u64,
    /// Lists that were pruned to fit a record.
    pub pruned_lists: u64,
    /// Pages read.
    pub page_reads: u64,
    /// Bytes of all files written.
    pub bytes_written: u64,
    /// Bytes of all files of the new generation.
    pub disk_bytes: u64,
}

/// Pages of a segment written at once.
const BATCH: usize = 64;

impl LiveIndex {
    /// Writes all changes as the next generation, which includes all writes up to the sequence
    /// number `applied`, and goes on from there. Inserts wait meanwhile, searches and deletes do
    /// not.
    ///
    /// # Errors
    /// [`UpdateError`]: unreadable pages, or files that cannot be written; the changes stay in
    /// memory then and the old generation on disk. After a failed sync or exchange, where nobody
    /// can tell what a power cut would leave, all further writing is refused
    /// ([`UpdateError::Poisoned`]) until the index is opened again.
    pub fn checkpoint(&self, applied: u64) -> Result<CheckpointReport, UpdateError> {
        let _alone = self.only_writer()?;
        let current = self.current();
        let mut work = Checkpoint {
            generation: &current,
            path: &self.path,
            exact: self.options.exact_prunes,
            files: self.options.files.as_ref(),
            number: current.index.manifest().generation + 1,
            written: Vec::new(),
            report: CheckpointReport::default(),
            doubtful: false,
        };
        let rows = {
            // Deletes wait for the snapshot only, and are noted from here on.
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            *late = Some(Vec::new());
            RowsNow::of(&current)
        };
        let outcome = work.run(applied, &rows, self.options.cache_bytes);
        let (doubtful, written) = (work.doubtful, std::mem::take(&mut work.written));
        let next = match outcome {
            Ok(report) => self.go_on(report),
            Err(e) => {
                if doubtful {
                    self.poison(&e);
                } else {
                    // What is left in spite of this is removed when the index is opened again.
                    written.iter().for_each(|p| drop(self.options.files.remove(p)));
                }
                Err(e)
            }
        };
        *self.late.lock().unwrap_or_else(PoisonError::into_inner) = None;
        next
    }

    fn poison(&self, why: &UpdateError) {
        // The first reason stands.
        let _ = self.poisoned.set(why.to_string());
    }

    /// Opens the generation just written and lets searches and changes go on with it.
    fn go_on(&self, report: CheckpointReport) -> Result<CheckpointReport, UpdateError> {
        let next = open_generation(&self.path, &self.options).inspect_err(|e| self.poison(e))?;
        if let Err(e) = remove_strays(&self.path, &next.index, self.options.files.as_ref()) {
            tracing::warn!("files of an old generation stay until the next open: {e}");
        }
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        for row in late.take().unwrap_or_default() {
            next.delete(row);
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        Ok(report)
    }
}

/// Rows and deleted nodes at one instant.
struct RowsNow {
    map: Vec<u32>,
    tombstones: Vec<u32>,
    live: u64,
}

impl RowsNow {
    fn of(generation: &Generation) -> Self {
        let rows = generation.next_row.load(Ordering::Relaxed);
        let map = generation.rows.to_map(rows);
        let live = generation.rows.len();
        Self { map, tombstones: generation.kept_tombstones(), live }
    }
}

struct Checkpoint<'a> {
    generation: &'a Generation,
    path: &'a Path,
    exact: bool,
    files: &'a dyn Files,
    number: u64,
    /// Files created, for removal after a failure.
    written: Vec<PathBuf>,
    report: CheckpointReport,
    /// Whether a sync or the exchange has failed.
    doubtful: bool,
}

impl Checkpoint<'_> {
    fn run(
        &mut self,
        applied: u64,
        rows: &RowsNow,
        cache_bytes: usize,
    ) -> Result<CheckpointReport, UpdateError> {
        let generation = self.generation;
        let old = generation.index.manifest().clone();
        let on_disk = read_manifest(self.path)?;
        if (on_disk.uuid, on_disk.generation) != (old.uuid, old.generation) {
            return Err(UpdateError::Replaced { path: self.path.to_owned() });
        }
        let partition = &old.partitions[0];
        let pages = generation.slots.lock().unwrap_or_else(PoisonError::into_inner).pages();
        let mut changed = generation.patches.pages();
        changed.retain(|page| page.0 < pages);
        // Every fresh page gets an image, also one whose slots are all free.
        let fresh = generation.index.pages()..pages;
        let has: HashSet<u32> = changed.iter().map(|p| p.0).collect();
        changed.extend(fresh.filter(|page| !has.contains(page)).map(PageId));
        changed.sort_unstable();
        let is_changed = |page: u32| changed.binary_search(&PageId(page)).is_ok();
        let old_map = generation.index.page_map();
        let plan = plan(old_map, &partition.segments, is_changed, changed.len());
        let partition =
            self.partition(&plan, &changed, rows, partition.dir.clone(), (pages, cache_bytes))?;
        let (head_file, head) = self.head(&old.head)?;
        let manifest = Manifest {
            generation: self.number,
            rows: rows.live,
            next_row_id: rows.map.len() as u64,
            applied,
            entries: vec![generation.entry()],
            head,
            head_file,
            partitions: vec![partition],
            ..old
        };
        let bytes = manifest.encode()?;
        self.report.disk_bytes = manifest.files().iter().map(|f| f.bytes).sum::<u64>();
        self.report.disk_bytes += bytes.len() as u64;
        let dir = self.path.join(manifest.partitions[0].dir.as_str());
        self.sync_dir(&dir)?;
        self.publish(&bytes)?;
        self.report.generation = self.number;
        Ok(self.report)
    }

    fn publish(&mut self, manifest: &[u8]) -> Result<(), UpdateError> {
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

    fn sync_dir(&mut self, dir: &Path) -> Result<(), UpdateError> {
        let synced = self.files.sync_dir(dir);
        self.sure("sync", dir, synced)
    }

    fn create(&mut self, path: &Path) -> Result<Box<dyn NewFile>, UpdateError> {
        self.written.push(path.to_owned());
        self.files.create(path).map_err(UpdateError::file("create", path))
    }

    fn append(
        &mut self,
        file: &mut dyn NewFile,
        path: &Path,
        bytes: &[u8],
    ) -> Result<(), UpdateError> {
        self.report.bytes_written += bytes.len() as u64;
        file.append(bytes).map_err(UpdateError::file("write", path))
    }

    fn finish(&mut self, file: &mut dyn NewFile, path: &Path) -> Result<(), UpdateError> {
        let synced = file.sync();
        self.sure("sync", path, synced)
    }

    /// Writes a whole file of these parts; returns its length.
    fn write(&mut self, path: &Path, parts: &[&[u8]]) -> Result<u64, UpdateError> {
        let mut file = self.create(path)?;
        for part in parts {
            self.append(file.as_mut(), path, part)?;
        }
        self.finish(file.as_mut(), path)?;
        Ok(parts.iter().map(|part| part.len() as u64).sum())
    }

    fn partition(
        &mut self,
        plan: &SegmentPlan,
        changed: &[PageId],
        rows: &RowsNow,
        dir: RelativePath,
        (pages, cache_bytes): (u32, usize),
    ) -> Result<PartitionEntry, UpdateError> {
        let mut page_map = plan.page_map.clone();
        page_map.resize(pages as usize, ABSENT);
        let mut segments = plan.kept.clone();
        let segment = self.segment(plan, changed, &dir, &mut page_map, cache_bytes)?;
        segments.extend(segment);
        let row_map = encode_map(&rows.map);
        let page_map = self.whole(&dir, "pagemap", FileKind::PageMap, &encode_map(&page_map))?;
        let codes = self.codes(&dir, pages)?;
        let row_map = self.blocked(&dir, "rows", FileKind::RowMap, &row_map)?;
        let tombstones = match rows.tombstones.is_empty() {
            true => None,
            false => {
                let body = encode_map(&rows.tombstones);
                Some(self.whole(&dir, "tombstones", FileKind::Tombstones, &body)?)
            }
        };
        let (first_page, row_map) = (0, Some(row_map));
        Ok(PartitionEntry {
            dir,
            first_page,
            pages,
            segments,
            page_map,
            codes,
            row_map,
            tombstones,
        })
    }

    /// Writes changed and copied pages in logical order; `None` where there is none.
    fn segment(
        &mut self,
        plan: &SegmentPlan,
        changed: &[PageId],
        dir: &RelativePath,
        page_map: &mut [u32],
        cache_bytes: usize,
    ) -> Result<Option<SegmentEntry>, UpdateError> {
        let mut all: Vec<PageId> = plan.copied.iter().map(|&page| PageId(page)).collect();
        all.extend_from_slice(changed);
        all.sort_unstable();
        if all.is_empty() {
            return Ok(None);
        }
        let first: u32 = plan.kept.iter().map(|segment| segment.pages).sum();
        let name = RelativePath::new(&format!("segment-{:06}.pages", self.number))?;
        let path = self.path.join(dir.join(&name));
        let mut file = self.create(&path)?;
        let generation = self.generation;
        let layout = *generation.layout();
        let mut reader = PageReader::new(&generation.index, cache_bytes)?;
        let mut fold = Fold {
            generation,
            reader: &mut reader,
            number: self.number,
            exact: self.exact,
            pruned: 0,
        };
        let mut image = vec![0; layout.page_bytes()];
        for (batch, some) in all.chunks(BATCH).enumerate() {
            fold.reader.load(&generation.index, some)?;
            for (i, &page) in some.iter().enumerate() {
                page_map[page.0 as usize] = first + (batch * BATCH + i) as u32;
                if changed.binary_search(&page).is_ok() {
                    fold.page(page, &mut image)?;
                } else {
                    fold.reader.load(&generation.index, &[page])?;
                    image.copy_from_slice(fold.reader.image(page).expect("the page was loaded"));
                }
                self.append(file.as_mut(), &path, &image)?;
            }
        }
        self.finish(file.as_mut(), &path)?;
        self.report.changed_pages = changed.len() as u64;
        self.report.copied_pages = plan.copied.len() as u64;
        self.report.pruned_lists = fold.pruned;
        self.report.page_reads = fold.reader.reads();
        let pages = all.len() as u32;
        let bytes = u64::from(pages) * layout.page_bytes() as u64;
        let file = FileEntry { path: name, bytes };
        Ok(Some(SegmentEntry { file, first_physical_page: first, pages }))
    }

    fn name(&self, stem: &str) -> Result<RelativePath, UpdateError> {
        Ok(RelativePath::new(&format!("{stem}-{}", self.number))?)
    }

    fn whole(
        &mut self,
        dir: &RelativePath,
        stem: &str,
        kind: FileKind,
        body: &[u8],
    ) -> Result<FileEntry, UpdateError> {
        let name = self.name(stem)?;
        let sealed = seal_body(kind, &self.generation.index.identity(), self.number, body);
        let bytes = self.write(&self.path.join(dir.join(&name)), &[&sealed])?;
        Ok(FileEntry { path: name, bytes })
    }

    fn header(&self, kind: FileKind) -> FileHeader {
        let identity = self.generation.index.identity();
        FileHeader { kind, identity, generation: self.number, body_bytes: 0, body_checksum: 0 }
    }

    fn blocked(
        &mut self,
        dir: &RelativePath,
        stem: &str,
        kind: FileKind,
        body: &[u8],
    ) -> Result<FileEntry, UpdateError> {
        let name = self.name(stem)?;
        let sums = BlockChecksums::of_body(self.header(kind), body);
        let parts: [&[u8]; 3] = [&sums.encode_head(), body, &sums.encode_tail()];
        let bytes = self.write(&self.path.join(dir.join(&name)), &parts)?;
        Ok(FileEntry { path: name, bytes })
    }

    /// Codes of all slots, straight from the table in memory.
    fn codes(&mut self, dir: &RelativePath, pages: u32) -> Result<FileEntry, UpdateError> {
        let name = self.name("codes")?;
        let path = self.path.join(dir.join(&name));
        let table = self.generation.index.codes();
        let slots = pages * self.generation.layout().records_per_page() as u32;
        let body_bytes = slots as usize * table.code_bytes();
        let mut sums = BlockChecksums::start(self.header(FileKind::Codes));
        let mut block = Vec::with_capacity(BLOCK_BYTES + table.code_bytes());
        // The header holds a checksum over all blocks, so these are made in a first round.
        let mut blocks = |take: &mut dyn FnMut(&[u8]) -> Result<(), UpdateError>| {
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
            Ok::<(), UpdateError>(())
        };
        blocks(&mut |block| {
            sums.push(block);
            Ok(())
        })?;
        let mut file = self.create(&path)?;
        self.append(file.as_mut(), &path, &sums.encode_head())?;
        blocks(&mut |block| self.append(file.as_mut(), &path, block))?;
        self.append(file.as_mut(), &path, &sums.encode_tail())?;
        self.finish(file.as_mut(), &path)?;
        let bytes = FileKind::Codes.file_bytes(body_bytes as u64).expect("the file was written");
        Ok(FileEntry { path: name, bytes })
    }

    fn head(&mut self, old: &HeadParameters) -> Result<(FileEntry, HeadParameters), UpdateError> {
        let head = self.generation.head();
        let parts = head.map_or_else(HeadParts::default, |head| HeadParts {
            nodes: head.nodes().to_vec(),
            max_degree: head.max_degree() as u32,
            degrees: head.degrees().to_vec(),
            adjacency: head.adjacency().to_vec(),
            entry: head.entry(),
        });
        let name = self.name("head")?;
        let body = parts.encode()?;
        let identity = self.generation.index.identity();
        let sealed = seal_body(FileKind::Head, &identity, self.number, &body);
        let bytes = self.write(&self.path.join(name.as_str()), &[&sealed])?;
        let nodes = parts.nodes.len() as u32;
        Ok((FileEntry { path: name, bytes }, HeadParameters { nodes, ..*old }))
    }
}
