//! The next generation: changes folded into pages, new files, and the manifest swapped last.
//!
//! Everything is written under names of the new generation and put on stable storage before the
//! manifest takes its place by one rename; so a crash at any point leaves the generation before
//! or the new one. Files that only the old generation names are removed after that. Searches
//! under way hold them open and end on the old generation; so does another process that has
//! opened it. One that reads the manifest just before the exchange may miss a file, and opens
//! again.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::error::UpdateError;
use super::fold::Folding;
use super::generation::{Generation, NextMemory};
use super::live::{LiveIndex, LiveOptions, open_generation};
use super::segments::{SegmentPlan, plan};
use super::strays::remove_strays;
use super::writing::Writing;
use crate::format::constants::ABSENT;
use crate::format::{
    FileEntry, FileKind, HeadParameters, HeadParts, Manifest, PartitionEntry, RelativePath,
    SegmentEntry, encode_map, seal_body,
};
use crate::index::{OpenOptions, Resident, read_manifest};
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
        // What the next generation needs is taken first: behind the exchange nothing may fail.
        let memory = self.memory_after(&current).inspect_err(|_| {
            // Searches of an older generation may hold what is missing; the next insert asks.
            let _ = current.keep_headroom();
        })?;
        let rows = {
            // Deletes wait for the snapshot only, and are noted from here on.
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            *late = Some(Vec::new());
            RowsNow::of(&current)
        };
        let mut work = self.begin(&current);
        let outcome = work.run(applied, &rows);
        let Checkpoint { writing, changed, .. } = work;
        let done = match outcome {
            Ok(report) => {
                let followed = self.go_on(current, memory, &rows.map, &changed);
                followed.map(|()| report).inspect_err(|e| self.poison(e))
            }
            Err(e) => {
                if writing.doubtful {
                    self.poison(&e);
                } else {
                    // What is left in spite of this is removed when the index is opened again.
                    writing.written.iter().for_each(|p| drop(self.options.files.remove(p)));
                }
                drop(memory);
                let _ = current.keep_headroom();
                Err(e)
            }
        };
        *self.late.lock().unwrap_or_else(PoisonError::into_inner) = None;
        done
    }

    fn memory_after(&self, current: &Generation) -> Result<NextMemory, UpdateError> {
        let pages = current.slots.lock().unwrap_or_else(PoisonError::into_inner).pages();
        let slots = u64::from(pages) * current.layout().records_per_page() as u64;
        let resident = self.options.open.resident;
        Ok(current.next_memory(self.options.spare_slots(slots), resident)?)
    }

    fn begin<'a>(&'a self, current: &'a Generation) -> Checkpoint<'a> {
        Checkpoint {
            generation: current,
            options: &self.options,
            writing: Writing {
                path: &self.path,
                files: self.options.files.as_ref(),
                identity: current.index.identity(),
                number: current.index.manifest().generation + 1,
                written: Vec::new(),
                bytes: 0,
                doubtful: false,
            },
            changed: Vec::new(),
            report: CheckpointReport::default(),
        }
    }

    fn poison(&self, why: &UpdateError) {
        // The first reason stands.
        let _ = self.poisoned.set(why.to_string());
    }

    /// Opens the generation just written and lets searches and changes go on with it.
    fn go_on(
        &self,
        current: Arc<Generation>,
        memory: NextMemory,
        map: &[u32],
        changed: &[PageId],
    ) -> Result<(), UpdateError> {
        let next = Arc::new(self.open_next(&current, memory, map, changed)?);
        if let Err(e) = remove_strays(&self.path, &next.index, self.options.files.as_ref()) {
            tracing::warn!("files of an old generation stay until the next open: {e}");
        }
        {
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            for row in late.take().unwrap_or_default() {
                next.delete(row);
            }
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&next);
        }
        // With its last search the old generation gives back memory that these ask for.
        drop(current);
        let _ = next.keep_headroom();
        if self.options.open.resident == Resident::All {
            // A page that cannot be read is reported to the search that needs it.
            let _ = next.index.load_absent_pages();
        }
        Ok(())
    }

    fn open_next(
        &self,
        current: &Generation,
        memory: NextMemory,
        map: &[u32],
        changed: &[PageId],
    ) -> Result<Generation, UpdateError> {
        let slots = read_manifest(&self.path)?.slots();
        let spare_slots = self.options.spare_slots(slots);
        let open = OpenOptions { spare_slots, ..self.options.open.clone() };
        let is_changed = |page: PageId| changed.binary_search(&page).is_ok();
        let NextMemory { index, own } = memory;
        match current.index.succeed(&open, index, &is_changed)? {
            Some(index) => current.followed_by(index, map, spare_slots, own),
            None => {
                drop(own);
                open_generation(&self.path, &self.options)
            }
        }
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
    options: &'a LiveOptions,
    writing: Writing<'a>,
    /// Pages written anew, ascending.
    changed: Vec<PageId>,
    report: CheckpointReport,
}

impl Checkpoint<'_> {
    fn run(&mut self, applied: u64, rows: &RowsNow) -> Result<CheckpointReport, UpdateError> {
        let generation = self.generation;
        let old = generation.index.manifest().clone();
        let on_disk = read_manifest(self.writing.path)?;
        if (on_disk.uuid, on_disk.generation) != (old.uuid, old.generation) {
            return Err(UpdateError::Replaced { path: self.writing.path.to_owned() });
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
        let partition = self.partition(&plan, &changed, rows, partition.dir.clone(), pages)?;
        let (head_file, head) = self.head(&old.head)?;
        let manifest = Manifest {
            generation: self.writing.number,
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
        let dir = self.writing.path.join(manifest.partitions[0].dir.as_str());
        self.writing.sync_dir(&dir)?;
        self.writing.publish(&bytes)?;
        self.changed = changed;
        self.report.generation = self.writing.number;
        self.report.bytes_written = self.writing.bytes;
        Ok(self.report)
    }

    fn partition(
        &mut self,
        plan: &SegmentPlan,
        changed: &[PageId],
        rows: &RowsNow,
        dir: RelativePath,
        pages: u32,
    ) -> Result<PartitionEntry, UpdateError> {
        let mut page_map = plan.page_map.clone();
        page_map.resize(pages as usize, ABSENT);
        let mut segments = plan.kept.clone();
        let segment = self.segment(plan, changed, &dir, &mut page_map)?;
        segments.extend(segment);
        let row_map = encode_map(&rows.map);
        let writing = &mut self.writing;
        let page_map = writing.whole(&dir, "pagemap", FileKind::PageMap, &encode_map(&page_map))?;
        let slots = pages * self.generation.layout().records_per_page() as u32;
        let codes = writing.codes(&dir, self.generation.index.codes(), slots)?;
        let row_map = writing.blocked(&dir, "rows", FileKind::RowMap, &row_map)?;
        let tombstones = match rows.tombstones.is_empty() {
            true => None,
            false => {
                let body = encode_map(&rows.tombstones);
                Some(writing.whole(&dir, "tombstones", FileKind::Tombstones, &body)?)
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
    ) -> Result<Option<SegmentEntry>, UpdateError> {
        let mut all: Vec<PageId> = plan.copied.iter().map(|&page| PageId(page)).collect();
        all.extend_from_slice(changed);
        all.sort_unstable();
        if all.is_empty() {
            return Ok(None);
        }
        let first: u32 = plan.kept.iter().map(|segment| segment.pages).sum();
        for (place, page) in (first..).zip(&all) {
            page_map[page.0 as usize] = place;
        }
        let name = RelativePath::new(&format!("segment-{:06}.pages", self.writing.number))?;
        let path = self.writing.path.join(dir.join(&name));
        let mut file = self.writing.create(&path)?;
        let generation = self.generation;
        let (number, exact) = (self.writing.number, self.options.exact_prunes);
        let folding = Folding { generation, changed, number, exact };
        let means = (self.options.threads(), self.options.cache_bytes);
        let mut take = |images: &[u8]| self.writing.append(file.as_mut(), &path, images);
        let folded = folding.run(&all, means, &mut take)?;
        self.writing.finish(file.as_mut(), &path)?;
        self.report.changed_pages = changed.len() as u64;
        self.report.copied_pages = plan.copied.len() as u64;
        self.report.pruned_lists = folded.pruned;
        self.report.page_reads = folded.reads;
        let pages = all.len() as u32;
        let bytes = u64::from(pages) * generation.layout().page_bytes() as u64;
        let file = FileEntry { path: name, bytes };
        Ok(Some(SegmentEntry { file, first_physical_page: first, pages }))
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
        let name = self.writing.name("head")?;
        let body = parts.encode()?;
        let (identity, number) = (self.writing.identity, self.writing.number);
        let sealed = seal_body(FileKind::Head, &identity, number, &body);
        let path = self.writing.path.join(name.as_str());
        let bytes = self.writing.write(&path, &[&sealed])?;
        let nodes = parts.nodes.len() as u32;
        Ok((FileEntry { path: name, bytes }, HeadParameters { nodes, ..*old }))
    }
}
