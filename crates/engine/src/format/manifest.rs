//! The manifest: everything an index is made of, in one small file that is swapped whole.
//!
//! A manifest is valid when its partitions cover contiguous ranges of logical pages from 0 up,
//! the segments of each cover contiguous ranges of physical pages from 0 up, all nodes it
//! names exist, and the length of every file agrees with what it holds. Both directions check
//! this, so an invalid manifest is neither written nor read.

use super::checksum::Identity;
use super::constants::{ABSENT, ALIGNMENT, MAX_CODE_BYTES, MAX_DEGREE, ROW_ID_LIMIT};
use super::error::FormatError;
use super::file_kind::FileKind;
use super::layout::RecordLayout;
use super::relative_path::RelativePath;
use crate::types::{Metric, NodeId};

/// A file of the index and its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Path from the index directory; from the partition's directory for a partition's file.
    pub path: RelativePath,
    /// Length of the file.
    pub bytes: u64,
}

/// How the graph was built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BuildParameters {
    /// Degree of the graph (R).
    pub degree: u32,
    /// Candidate list (L).
    pub list: u32,
    /// Alpha of the robust prune.
    pub alpha: f32,
    /// Passes over the rows.
    pub passes: u32,
    /// Seed of everything random.
    pub seed: u64,
}

/// How the head index was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadParameters {
    /// Number of head nodes.
    pub nodes: u32,
    /// Degree of its graph.
    pub degree: u32,
    /// Candidate list of its build.
    pub list: u32,
}

/// A segment: physical pages in one append-only file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// The file, of `pages` pages.
    pub file: FileEntry,
    /// First physical page, within the partition's concatenated segments.
    pub first_physical_page: u32,
    /// Number of physical pages.
    pub pages: u32,
}

/// A partition: a contiguous range of logical pages in a directory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionEntry {
    /// Directory, from the index directory.
    pub dir: RelativePath,
    /// First logical page.
    pub first_page: u32,
    /// Number of logical pages.
    pub pages: u32,
    /// Segments in the order of their physical pages.
    pub segments: Vec<SegmentEntry>,
    /// Physical page of each logical page of the partition.
    pub page_map: FileEntry,
    /// Codes of all slots of the partition.
    pub codes: FileEntry,
    /// Node of each row, from row id 0 up; `None` where row ids are node ids.
    pub row_map: Option<FileEntry>,
    /// Nodes that are traversed but not answered; `None` where there are none.
    pub tombstones: Option<FileEntry>,
}

impl PartitionEntry {
    /// Physical pages in all segments.
    pub fn physical_pages(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.pages)).sum()
    }
}

/// One generation of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// uuid of the index, the same in all generations.
    pub uuid: [u8; 16],
    /// Counts up with each manifest.
    pub generation: u64,
    /// Live rows.
    pub rows: u64,
    /// The row id that the next row gets.
    pub next_row_id: u64,
    /// Sequence number of the last write that this generation includes; 0: only the build.
    pub applied: u64,
    /// How vectors are compared.
    pub metric: Metric,
    /// Shape of records and pages.
    pub layout: RecordLayout,
    /// Where a search may start; the medoid first.
    pub entries: Vec<NodeId>,
    /// Bytes of an in-memory code.
    pub code_bytes: u32,
    /// Version of the codebook that made the codes.
    pub codebook_version: u32,
    /// How the graph was built.
    pub build: BuildParameters,
    /// How the head index was built.
    pub head: HeadParameters,
    /// The head index.
    pub head_file: FileEntry,
    /// The codebook.
    pub codebook_file: FileEntry,
    /// Partitions in the order of their logical pages, at least one.
    pub partitions: Vec<PartitionEntry>,
}

/// A file that the manifest names, for opening and for listing what is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// What it holds.
    pub kind: FileKind,
    /// Path from the index directory.
    pub path: String,
    /// Length that the manifest states.
    pub bytes: u64,
}

impl NamedFile {
    /// Compares the length found with the manifest's.
    ///
    /// # Errors
    /// [`FormatError::Length`]: the file was cut off, or is another one.
    pub fn check_length(&self, found: u64) -> Result<(), FormatError> {
        if found == self.bytes {
            return Ok(());
        }
        Err(FormatError::Length { kind: self.kind, expected: self.bytes, found })
    }
}

impl Manifest {
    /// What checksums of this index are seeded with.
    pub fn identity(&self) -> Identity {
        Identity { uuid: self.uuid }
    }

    /// Logical pages of all partitions.
    pub fn pages(&self) -> u64 {
        self.partitions.iter().map(|partition| u64::from(partition.pages)).sum()
    }

    /// Slots of all pages: every node id is below.
    pub fn slots(&self) -> u64 {
        self.pages() * self.layout.records_per_page() as u64
    }

    /// Every file of this generation except the manifest itself.
    pub fn files(&self) -> Vec<NamedFile> {
        let top = |kind, file: &FileEntry| NamedFile {
            kind,
            path: file.path.as_str().to_owned(),
            bytes: file.bytes,
        };
        let mut out = vec![
            top(FileKind::Codebook, &self.codebook_file),
            top(FileKind::Head, &self.head_file),
        ];
        for partition in &self.partitions {
            let inside = |kind, file: &FileEntry| NamedFile {
                kind,
                path: partition.dir.join(&file.path),
                bytes: file.bytes,
            };
            out.extend(partition.segments.iter().map(|s| inside(FileKind::Segment, &s.file)));
            out.push(inside(FileKind::PageMap, &partition.page_map));
            out.push(inside(FileKind::Codes, &partition.codes));
            out.extend(partition.row_map.iter().map(|file| inside(FileKind::RowMap, file)));
            let tombstones = partition.tombstones.iter();
            out.extend(tombstones.map(|file| inside(FileKind::Tombstones, file)));
        }
        out
    }

    /// Checks the invariants at the head of this module.
    ///
    /// # Errors
    /// [`FormatError::Value`] names the first field that is out of range.
    pub fn validate(&self) -> Result<(), FormatError> {
        within("code bytes", u64::from(self.code_bytes), 1, MAX_CODE_BYTES as u64)?;
        within("head degree", u64::from(self.head.degree), 0, MAX_DEGREE as u64)?;
        within("next row id", self.next_row_id, 0, ROW_ID_LIMIT)?;
        if !(self.build.alpha.is_finite() && self.build.alpha > 0.0) {
            return Err(wrong("alpha", "a finite number above 0", self.build.alpha));
        }
        let ty = self.layout.vector_type();
        if !ty.takes_metric(self.metric) {
            return Err(wrong("metric", format!("one for {ty} vectors"), self.metric));
        }
        if self.partitions.is_empty() {
            return Err(wrong("number of partitions", "at least 1", 0));
        }
        let mut next_page = 0;
        for partition in &self.partitions {
            exactly("first page of a partition", next_page, u64::from(partition.first_page))?;
            next_page += u64::from(partition.pages);
            self.validate_partition(partition)?;
        }
        within("number of pages", next_page, 0, u64::from(self.layout.max_pages()))?;
        let slots = self.slots();
        within("rows", self.rows, 0, slots.min(self.next_row_id))?;
        within("head nodes", u64::from(self.head.nodes), 0, slots)?;
        let count = self.entries.len() as u64;
        within("number of entry nodes", count, self.rows.min(1), slots)?;
        if let Some(entry) = self.entries.iter().find(|entry| u64::from(entry.0) >= slots) {
            return Err(wrong("entry node", format!("below {slots}"), entry.0));
        }
        Ok(())
    }

    fn validate_partition(&self, partition: &PartitionEntry) -> Result<(), FormatError> {
        let mut next_page = 0;
        for segment in &partition.segments {
            let first = u64::from(segment.first_physical_page);
            exactly("first physical page of a segment", next_page, first)?;
            next_page += u64::from(segment.pages);
            let bytes = u64::from(segment.pages) * self.layout.page_bytes() as u64;
            exactly("file bytes of a segment", bytes, segment.file.bytes)?;
        }
        // The last u32 stands for "absent" in the page map.
        within("number of physical pages", next_page, 0, u64::from(ABSENT))?;
        let pages = u64::from(partition.pages);
        let map_bytes = FileKind::PageMap.file_bytes(pages * 4);
        exactly("file bytes of a page map", map_bytes.unwrap_or(0), partition.page_map.bytes)?;
        // Below 2^32 pages x 64 records x 2^15 bytes.
        let body = pages * self.layout.records_per_page() as u64 * u64::from(self.code_bytes);
        let code_bytes = FileKind::Codes.file_bytes(body).unwrap_or(0);
        exactly("file bytes of codes", code_bytes, partition.codes.bytes)?;
        if let Some(tombstones) = &partition.tombstones {
            // One u32 for each, at most all slots of the partition.
            let slots = pages * self.layout.records_per_page() as u64;
            let file_bytes = |count: u64| FileKind::Tombstones.file_bytes(count * 4).unwrap_or(0);
            let (least, most) = (file_bytes(1), file_bytes(slots));
            within("file bytes of tombstones", tombstones.bytes, least, most)?;
        }
        if let Some(row_map) = &partition.row_map {
            let body = self.next_row_id.checked_mul(4);
            let dense = body.and_then(|body| FileKind::RowMap.file_bytes(body));
            // Of some rows, those of this partition.
            let slots = pages * self.layout.records_per_page() as u64;
            let most = dense.max(FileKind::RowPairs.file_bytes(slots * 8));
            within("file bytes of a row map", row_map.bytes, 0, most.unwrap_or(u64::MAX))?;
            let rest = row_map.bytes % ALIGNMENT as u64;
            exactly("file bytes of a row map beyond a multiple of 4096", 0, rest)?;
        }
        Ok(())
    }
}

fn wrong(field: &'static str, expected: impl ToString, found: impl ToString) -> FormatError {
    FormatError::value(FileKind::Manifest, field, expected, found)
}

fn within(field: &'static str, found: u64, least: u64, most: u64) -> Result<(), FormatError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(wrong(field, format!("{least} to {most}"), found))
}

fn exactly(field: &'static str, expected: u64, found: u64) -> Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(wrong(field, expected, found)) }
}
