//! The next generation: changes folded into pages, new files, and the manifest swapped last.
//!
//! Everything is written under names of the new generation and put on stable storage before the
//! manifest takes its place by one rename; so a crash at any point leaves the generation before
//! or the new one. Files that only the old generation names are removed after that. Searches
//! under way hold them open and end on the old generation; so does another process that has
//! opened it. One that reads the manifest just before the exchange may miss a file, and opens
//! again.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::error::UpdateError;
use super::fold::Folding;
use super::generation::Generation;
use super::images::Spare;
use super::live::LiveOptions;
use super::rows::RowTable;
use super::segments::{SegmentPlan, plan};
use super::writing::{TakeBlockFn, Writing};
use crate::format::constants::ABSENT;
use crate::format::{
    FileEntry, FileKind, HeadParameters, HeadParts, Manifest, PartitionEntry, RelativePath,
    SegmentEntry, encode_map,
};
use crate::index::read_manifest;
use crate::quant::CodesView;
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

/// Rows and deleted nodes at one instant.
pub(super) struct RowsNow {
    /// The node of each row. It becomes the table of the next generation, whose memory was taken
    /// before.
    pub(super) table: RowTable,
    /// Rows are below.
    pub(super) next_row: u64,
    /// Deleted nodes that are still part of the graph, ascending.
    pub(super) tombstones: Vec<u32>,
    pub(super) live: u64,
}

impl RowsNow {
    pub(super) fn of(generation: &Generation) -> Self {
        let next_row = generation.next_row.load(Ordering::Relaxed);
        let table = generation.rows.snapshot();
        let live = table.len();
        Self { table, next_row, tombstones: generation.kept_tombstones(), live }
    }
}

/// A generation being written.
pub(super) struct Checkpoint<'a> {
    pub(super) generation: &'a Generation,
    pub(super) options: &'a LiveOptions,
    pub(super) writing: Writing<'a>,
    /// Pages written anew, ascending.
    pub(super) changed: Vec<PageId>,
    pub(super) report: CheckpointReport,
    /// For pages that are read more than once.
    pub(super) spare: Spare,
}

impl Checkpoint<'_> {
    pub(super) fn run(
        &mut self,
        applied: u64,
        rows: &RowsNow,
    ) -> Result<CheckpointReport, UpdateError> {
        let generation = self.generation;
        let old = self.manifest()?;
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
            next_row_id: rows.next_row,
            applied,
            entries: vec![generation.entry()],
            head,
            head_file,
            partitions: vec![partition],
            ..old
        };
        self.changed = changed;
        self.publish(&manifest)
    }

    /// The manifest on disk, which is the one that was opened.
    pub(super) fn manifest(&self) -> Result<Manifest, UpdateError> {
        let old = self.generation.index.manifest().clone();
        let on_disk = read_manifest(self.writing.path)?;
        if (on_disk.uuid, on_disk.generation) != (old.uuid, old.generation) {
            return Err(UpdateError::Replaced { path: self.writing.path.to_owned() });
        }
        Ok(old)
    }

    /// Puts the manifest in place, when all that it names is on stable storage.
    pub(super) fn publish(&mut self, manifest: &Manifest) -> Result<CheckpointReport, UpdateError> {
        let bytes = manifest.encode()?;
        self.report.disk_bytes = manifest.files().iter().map(|f| f.bytes).sum::<u64>();
        self.report.disk_bytes += bytes.len() as u64;
        let dir = self.writing.path.join(manifest.partitions[0].dir.as_str());
        self.writing.sync_dir(&dir)?;
        self.writing.publish(&bytes)?;
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
        self.maps(dir, (segments, &page_map), self.generation.index.codes(), rows)
    }

    /// Writes what belongs to a partition beside its pages, which stand in `segments`.
    pub(super) fn maps(
        &mut self,
        dir: RelativePath,
        (segments, page_map): (Vec<SegmentEntry>, &[u32]),
        codes: CodesView<'_>,
        rows: &RowsNow,
    ) -> Result<PartitionEntry, UpdateError> {
        let pages = page_map.len() as u32;
        let writing = &mut self.writing;
        let page_map = writing.whole(&dir, "pagemap", FileKind::PageMap, &encode_map(page_map))?;
        let slots = pages * self.generation.layout().records_per_page() as u32;
        let codes = writing.codes(&dir, codes, slots)?;
        let mut blocks = |take: &mut TakeBlockFn<'_>| rows.table.map_blocks(rows.next_row, take);
        let row_map = writing.blocked(&dir, "rows", FileKind::RowMap, &mut blocks)?;
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
        let means = (self.options.threads(), self.spare.bytes());
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
        let file = self.writing.top("head", FileKind::Head, &parts.encode()?)?;
        Ok((file, HeadParameters { nodes: parts.nodes.len() as u32, ..*old }))
    }
}
