//! Writes a built graph as an index directory: pages, maps, codes, head, codebook, manifest.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::error::BuildError;
use super::gather::read;
use super::order::{EMPTY_SLOT, PageOrder};
use super::progress::{Progress, check_cancel};
use super::reach::EdgeLists;
use super::site::Site;
use super::source::RowSource;
use crate::format::constants::{ABSENT, BLOCK_BYTES};
use crate::format::{
    BlockChecksums, FileEntry, FileHeader, FileKind, Identity, PageWriter, PartitionEntry,
    RecordLayout, RelativePath, SegmentEntry, encode_map, seal_body,
};
use crate::types::{PageId, RowId};

/// The generation that a build writes.
pub(crate) const GENERATION: u64 = 1;

/// [`ABSENT`] consists of these.
const ABSENT_BYTE: u8 = 0xff;
const _: () = assert!(ABSENT == u32::from_le_bytes([ABSENT_BYTE; 4]));

/// Pages are made and written in pieces of about this size.
const CHUNK_BYTES: usize = 8 << 20;

/// Everything that goes to disk, by position in the input; the order says where.
pub(crate) struct Parts<'a> {
    pub(crate) source: &'a dyn RowSource,
    /// Row ids by position, ascending; the positions themselves where there are none.
    pub(crate) rows: Option<&'a [RowId]>,
    pub(crate) graph: &'a dyn EdgeLists,
    pub(crate) order: &'a PageOrder,
    pub(crate) codes: &'a [u8],
    pub(crate) code_bytes: usize,
    pub(crate) layout: RecordLayout,
    pub(crate) identity: Identity,
}

impl Parts<'_> {
    fn row_id(&self, position: u32) -> RowId {
        self.rows.map_or(RowId(u64::from(position)), |rows| rows[position as usize])
    }

    /// Row ids are below this.
    pub(crate) fn row_limit(&self) -> u64 {
        let after_last = |rows: &[RowId]| rows.last().map_or(0, |last| last.0 + 1);
        self.rows.map_or(self.source.rows() as u64, after_last)
    }

    /// Positions in the input of the row ids in a range, with the ids.
    fn rows_in(&self, range: std::ops::Range<usize>) -> Vec<(usize, usize)> {
        let Some(rows) = self.rows else { return range.map(|at| (at, at)).collect() };
        let first = rows.partition_point(|row| row.0 < range.start as u64);
        let until = rows.partition_point(|row| row.0 < range.end as u64);
        (first..until).map(|at| (at, rows[at].0 as usize)).collect()
    }
}

/// Writes to a site, counts what it writes, and stops when told to.
pub(crate) struct Writer<'a> {
    pub(crate) site: &'a Site,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) cancel: &'a AtomicBool,
}

impl Writer<'_> {
    /// A file with header and checksum, at the top or in a partition.
    pub(crate) fn whole(
        &self,
        dir: Option<&RelativePath>,
        name: &str,
        kind: FileKind,
        identity: &Identity,
        body: &[u8],
    ) -> Result<FileEntry, BuildError> {
        check_cancel(self.cancel)?;
        let path = RelativePath::new(name)?;
        let place = dir.map_or_else(|| name.to_owned(), |dir| dir.join(&path));
        let bytes = self.site.write(&place, &seal_body(kind, identity, GENERATION, body))?;
        self.progress.advance(bytes);
        Ok(FileEntry { path, bytes })
    }

    /// A file with a checksum per block, its body made piece by piece: `fill` appends the
    /// bytes of the items of a range, `item_bytes` each.
    fn blocked(
        &self,
        dir: &RelativePath,
        name: &str,
        header: FileHeader,
        (items, item_bytes): (usize, usize),
        fill: impl Fn(std::ops::Range<usize>, &mut Vec<u8>),
    ) -> Result<FileEntry, BuildError> {
        let path = RelativePath::new(name)?;
        let bytes = header.kind.file_bytes((items * item_bytes) as u64).unwrap_or(u64::MAX);
        let mut file = self.site.create(&dir.join(&path), bytes)?;
        // The header holds a checksum of all blocks, so the sums are made in a first round.
        let mut sums = BlockChecksums::start(header);
        self.pieces(items, item_bytes, &fill, |block| {
            sums.push(block);
            Ok(())
        })?;
        file.append(&sums.encode_head())?;
        self.pieces(items, item_bytes, &fill, |block| {
            self.progress.advance(block.len() as u64);
            file.append(block)
        })?;
        file.append(&sums.encode_tail())?;
        file.finish()?;
        Ok(FileEntry { path, bytes })
    }

    /// Hands out the body in blocks of 64 KiB.
    fn pieces(
        &self,
        items: usize,
        item_bytes: usize,
        fill: &impl Fn(std::ops::Range<usize>, &mut Vec<u8>),
        mut take: impl FnMut(&[u8]) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        let step = (CHUNK_BYTES / item_bytes).max(1);
        let mut buffer = Vec::with_capacity(CHUNK_BYTES + BLOCK_BYTES + item_bytes);
        for first in (0..items).step_by(step) {
            check_cancel(self.cancel)?;
            fill(first..(first + step).min(items), &mut buffer);
            let whole = buffer.len() / BLOCK_BYTES * BLOCK_BYTES;
            buffer[..whole].chunks(BLOCK_BYTES).try_for_each(&mut take)?;
            buffer.drain(..whole);
        }
        if buffer.is_empty() { Ok(()) } else { take(&buffer) }
    }

    /// A partition: the logical pages `pages`, in the directory of its number.
    pub(crate) fn partition(
        &self,
        parts: &Parts<'_>,
        number: usize,
        pages: std::ops::Range<usize>,
    ) -> Result<PartitionEntry, BuildError> {
        let dir = RelativePath::new(&format!("part-{number:04}"))?;
        self.site.create_dir(dir.as_str())?;
        let file = RelativePath::new("segment-000000.pages")?;
        self.segment(parts, &dir.join(&file), pages.clone())?;
        let bytes = (pages.len() * parts.layout.page_bytes()) as u64;
        let segment = SegmentEntry {
            file: FileEntry { path: file, bytes },
            first_physical_page: 0,
            pages: pages.len() as u32,
        };
        let map: Vec<u32> = (0..pages.len() as u32).collect();
        let name = format!("pagemap-{GENERATION}");
        let body = encode_map(&map);
        let page_map = self.whole(Some(&dir), &name, FileKind::PageMap, &parts.identity, &body)?;
        let codes = self.codes(parts, &dir, pages.clone())?;
        let row_map = self.row_map(parts, &dir, pages.clone())?;
        self.site.sync_dir(dir.as_str())?;
        Ok(PartitionEntry {
            dir,
            first_page: pages.start as u32,
            pages: pages.len() as u32,
            segments: vec![segment],
            page_map,
            codes,
            row_map: Some(row_map),
            tombstones: None,
        })
    }

    fn segment(
        &self,
        parts: &Parts<'_>,
        place: &str,
        pages: std::ops::Range<usize>,
    ) -> Result<(), BuildError> {
        let page_bytes = parts.layout.page_bytes();
        let mut file = self.site.create(place, (pages.len() * page_bytes) as u64)?;
        let step = (CHUNK_BYTES / page_bytes).max(1);
        let mut buffer = vec![0; step * page_bytes];
        for first in pages.clone().step_by(step) {
            check_cancel(self.cancel)?;
            let chunk = &mut buffer[..(pages.end - first).min(step) * page_bytes];
            let images = chunk.par_chunks_exact_mut(page_bytes).enumerate();
            images.try_for_each_init(Scratch::default, |scratch, (i, image)| {
                write_page(parts, first + i, image, scratch)
            })?;
            file.append(chunk)?;
            self.progress.advance(chunk.len() as u64);
        }
        file.finish()
    }

    fn codes(
        &self,
        parts: &Parts<'_>,
        dir: &RelativePath,
        pages: std::ops::Range<usize>,
    ) -> Result<FileEntry, BuildError> {
        let per_page = parts.layout.records_per_page();
        let first = pages.start * per_page;
        let fill = |slots: std::ops::Range<usize>, out: &mut Vec<u8>| {
            for slot in slots {
                match parts.order.rows[first + slot] {
                    EMPTY_SLOT => out.resize(out.len() + parts.code_bytes, 0),
                    row => {
                        let at = row as usize * parts.code_bytes;
                        out.extend_from_slice(&parts.codes[at..at + parts.code_bytes]);
                    }
                }
            }
        };
        let shape = (pages.len() * per_page, parts.code_bytes);
        let name = format!("codes-{GENERATION}");
        self.blocked(dir, &name, header(parts, FileKind::Codes), shape, fill)
    }

    fn row_map(
        &self,
        parts: &Parts<'_>,
        dir: &RelativePath,
        pages: std::ops::Range<usize>,
    ) -> Result<FileEntry, BuildError> {
        let per_page = parts.layout.records_per_page();
        let own = (pages.start * per_page) as u32..(pages.end * per_page) as u32;
        let name = format!("rows-{GENERATION}");
        if parts.order.partitions.len() > 1 {
            return self.row_pairs(parts, dir, &name, own);
        }
        let fill = |rows: std::ops::Range<usize>, out: &mut Vec<u8>| {
            let start = out.len();
            for (position, row) in parts.rows_in(rows.clone()) {
                let node = parts.order.nodes[position];
                let entry = if own.contains(&node) { node } else { ABSENT };
                out.resize(start + (row - rows.start) * 4, ABSENT_BYTE);
                out.extend_from_slice(&entry.to_le_bytes());
            }
            out.resize(start + rows.len() * 4, ABSENT_BYTE);
        };
        let shape = (usize::try_from(parts.row_limit()).expect("ids are below 2^32"), 4);
        self.blocked(dir, &name, header(parts, FileKind::RowMap), shape, fill)
    }

    /// The rows of one partition among several, and no others.
    fn row_pairs(
        &self,
        parts: &Parts<'_>,
        dir: &RelativePath,
        name: &str,
        own: std::ops::Range<u32>,
    ) -> Result<FileEntry, BuildError> {
        let slots = parts.order.rows[own.start as usize..own.end as usize].iter();
        // Row ids ascend with positions.
        let mut positions: Vec<u32> = slots.copied().filter(|row| *row != EMPTY_SLOT).collect();
        positions.sort_unstable();
        let fill = |some: std::ops::Range<usize>, out: &mut Vec<u8>| {
            for &position in &positions[some] {
                let row = u32::try_from(parts.row_id(position).0).expect("ids are below 2^32");
                out.extend(row.to_le_bytes());
                out.extend(parts.order.nodes[position as usize].to_le_bytes());
            }
        };
        let shape = (positions.len(), 8);
        self.blocked(dir, name, header(parts, FileKind::RowPairs), shape, fill)
    }
}

fn header(parts: &Parts<'_>, kind: FileKind) -> FileHeader {
    let identity = parts.identity;
    FileHeader { kind, identity, generation: GENERATION, body_bytes: 0, body_checksum: 0 }
}

/// Buffers of a thread that makes pages.
#[derive(Default)]
struct Scratch {
    edges: Vec<u32>,
    vector: Vec<u8>,
}

fn write_page(
    parts: &Parts<'_>,
    page: usize,
    image: &mut [u8],
    Scratch { edges, vector }: &mut Scratch,
) -> Result<(), BuildError> {
    let per_page = parts.layout.records_per_page();
    let mut writer = PageWriter::new(&parts.layout, image);
    vector.resize(parts.layout.vector_bytes(), 0);
    for (slot, &row) in parts.order.rows[page * per_page..][..per_page].iter().enumerate() {
        if row == EMPTY_SLOT {
            continue;
        }
        edges.clear();
        parts.graph.read(row, edges)?;
        edges.iter_mut().for_each(|n| *n = parts.order.nodes[*n as usize]);
        read(parts.source, row as usize, vector)?;
        writer.put(slot, vector, parts.row_id(row), edges);
    }
    writer.seal(&parts.identity, PageId(page as u32), GENERATION);
    Ok(())
}
