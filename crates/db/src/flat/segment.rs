//! A segment: an immutable file of blocks, and behind them which rows each block spans.
//!
//! The spans (16 bytes a block, granted by the accountant) stay in memory, so that one row is
//! found by reading one block. Rows come in nearly ascending order, which keeps spans apart.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipeann_engine::memory::{Accountant, Pool, Reservation};

use super::FlatError;
use super::block::{Block, BlockShape, BlockWriter};
use super::manifest::VectorSegmentEntry;
use crate::files::agrees;
use crate::ids::RowId;

/// A span on disk: the least row id of a block, then the largest.
const SPAN_BYTES: usize = 16;
/// The checksum behind the spans.
const CHECKSUM_BYTES: usize = 8;

pub(super) struct VectorSegment {
    entry: VectorSegmentEntry,
    shape: BlockShape,
    file: File,
    path: PathBuf,
    /// Least and largest row id of each block.
    spans: Vec<(RowId, RowId)>,
    _memory: Reservation,
}

/// Name of a segment's file.
pub(super) fn file_name(number: u64) -> String {
    format!("segment-{number:06}")
}

impl VectorSegment {
    /// Opens a segment that the manifest lists; blocks are checked when they are read.
    pub(super) fn open(
        dir: &Path,
        entry: VectorSegmentEntry,
        shape: BlockShape,
        accountant: &Arc<Accountant>,
    ) -> Result<Self, FlatError> {
        let path = dir.join(file_name(entry.number));
        let file = File::open(&path).map_err(|e| FlatError::read(&path, e))?;
        let blocks = entry.rows.div_ceil(shape.capacity() as u64);
        let spans_at = blocks.checked_mul(shape.block_bytes() as u64);
        let spans_bytes = usize::try_from(blocks).ok().and_then(|b| b.checked_mul(SPAN_BYTES));
        let spans_bytes = spans_bytes.filter(|bytes| *bytes < usize::MAX - CHECKSUM_BYTES);
        let (Some(spans_at), Some(spans_bytes)) = (spans_at, spans_bytes) else {
            return Err(FlatError::damaged(&path, format!("{} rows fit no file", entry.rows)));
        };
        let found = file.metadata().map_err(|e| FlatError::read(&path, e))?.len();
        let expected = spans_at.saturating_add((spans_bytes + CHECKSUM_BYTES) as u64);
        if found != expected {
            let what = format!("{found} bytes, {} rows take {expected}", entry.rows);
            return Err(FlatError::damaged(&path, what));
        }
        let memory = accountant.reserve(Pool::Pending, spans_bytes as u64)?;
        let mut bytes = vec![0; spans_bytes + CHECKSUM_BYTES];
        file.read_exact_at(&mut bytes, spans_at).map_err(|e| FlatError::read(&path, e))?;
        let (spans, sum) = bytes.split_at(spans_bytes);
        let stored = sum.first_chunk().map_or(0, |sum| u64::from_le_bytes(*sum));
        if !agrees(stored, shape.checksum(spans)) {
            return Err(FlatError::damaged(&path, "the spans of its blocks fail their checksum"));
        }
        let ids = spans.as_chunks::<8>().0;
        let id = |bytes: &[u8; 8]| RowId(u64::from_le_bytes(*bytes));
        let spans = ids.chunks_exact(2).map(|span| (id(&span[0]), id(&span[1]))).collect();
        Ok(Self { entry, shape, file, path, spans, _memory: memory })
    }

    pub(super) fn entry(&self) -> VectorSegmentEntry {
        self.entry
    }

    pub(super) fn rows(&self) -> u64 {
        self.entry.rows
    }

    pub(super) fn blocks(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file_bytes(&self) -> u64 {
        let blocks = self.blocks() as u64;
        blocks * (self.shape.block_bytes() + SPAN_BYTES) as u64 + CHECKSUM_BYTES as u64
    }

    /// The first block that may hold `row` or a later one.
    pub(super) fn first_block_of(&self, row: RowId) -> usize {
        let reaches = |span: &(RowId, RowId)| span.1 >= row;
        self.spans.iter().position(reaches).unwrap_or(self.spans.len())
    }

    /// Reads `count` blocks from `first` on in one go, and calls `each` with them in order.
    pub(super) fn read_blocks(
        &self,
        first: usize,
        count: usize,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(Block<'_>),
    ) -> Result<(), FlatError> {
        let block_bytes = self.shape.block_bytes();
        buffer.resize(count * block_bytes, 0);
        let at = first as u64 * block_bytes as u64;
        self.file.read_exact_at(buffer, at).map_err(|e| FlatError::read(&self.path, e))?;
        for (i, bytes) in buffer.chunks_exact(block_bytes).enumerate() {
            each(self.checked(bytes, first + i)?);
        }
        Ok(())
    }

    fn checked<'a>(&self, bytes: &'a [u8], block: usize) -> Result<Block<'a>, FlatError> {
        let number = u32::try_from(block).expect("a segment has fewer than 2^32 blocks");
        let read = Block::new(self.shape, bytes, self.entry.number, number)
            .map_err(|what| FlatError::damaged(&self.path, what))?;
        let before = (block * self.shape.capacity()) as u64;
        let expected = (self.entry.rows - before).min(self.shape.capacity() as u64);
        if read.rows().len() as u64 != expected {
            let what = format!("block {block} has {} rows, not {expected}", read.rows().len());
            return Err(FlatError::damaged(&self.path, what));
        }
        Ok(read)
    }

    /// The vector of `row`, read into `buffer`.
    pub(super) fn find<'b>(
        &self,
        row: RowId,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<&'b [u8]>, FlatError> {
        for (block, span) in self.spans.iter().enumerate() {
            if !(span.0..=span.1).contains(&row) {
                continue;
            }
            let mut found = None;
            self.read_blocks(block, 1, buffer, |read| {
                found = read.rows().position(|r| r == row);
            })?;
            if let Some(at) = found {
                let read = self.checked(buffer, block)?;
                let n = self.shape.vector_bytes();
                return Ok(Some(&read.vectors()[at * n..(at + 1) * n]));
            }
        }
        Ok(None)
    }

    /// Hands the vectors of rows that stand here to `put`, each with its position in `rows`, and
    /// takes these out of `wanted`, which holds positions in ascending order of their rows.
    pub(super) fn find_all(
        &self,
        rows: &[RowId],
        wanted: &mut Vec<usize>,
        buffer: &mut Vec<u8>,
        put: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), FlatError> {
        for (block, &(least, largest)) in self.spans.iter().enumerate() {
            let from = wanted.partition_point(|&at| rows[at] < least);
            let until = wanted.partition_point(|&at| rows[at] <= largest);
            if from == until {
                continue;
            }
            let mut found = Vec::new();
            self.read_blocks(block, 1, buffer, |read| {
                for (row, vector) in
                    read.rows().zip(read.vectors().chunks_exact(self.shape.vector_bytes()))
                {
                    let first = from + wanted[from..until].partition_point(|&at| rows[at] < row);
                    let same = (first..until).take_while(|&i| rows[wanted[i]] == row);
                    for i in same {
                        put(wanted[i], vector);
                        found.push(i);
                    }
                }
            })?;
            let mut i = 0;
            found.sort_unstable();
            wanted.retain(|_| {
                i += 1;
                found.binary_search(&(i - 1)).is_err()
            });
        }
        Ok(())
    }
}

/// Writes a segment from front to back.
pub(super) struct SegmentWriter {
    number: u64,
    file: BufWriter<File>,
    path: PathBuf,
    shape: BlockShape,
    block: BlockWriter,
    /// As they will be on disk.
    spans: Vec<u8>,
    span: Option<(RowId, RowId)>,
    rows: u64,
}

impl SegmentWriter {
    pub(super) fn create(dir: &Path, number: u64, shape: BlockShape) -> Result<Self, FlatError> {
        let path = dir.join(file_name(number));
        // What stands there was left by a flush that failed.
        let file = File::create(&path).map_err(FlatError::io("create", &path))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        let block = BlockWriter::new(shape);
        Ok(Self { number, file, path, shape, block, spans: Vec::new(), span: None, rows: 0 })
    }

    pub(super) fn push(&mut self, row: RowId, vector: &[u8]) -> Result<(), FlatError> {
        if self.block.is_full() {
            self.end_block()?;
        }
        self.block.push(row, vector);
        let (least, largest) = self.span.unwrap_or((row, row));
        self.span = Some((least.min(row), largest.max(row)));
        self.rows += 1;
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), FlatError> {
        let (least, largest) = self.span.take().expect("a block that ends has rows");
        let block = u32::try_from(self.spans.len() / SPAN_BYTES);
        let block = block.expect("a segment has fewer than 2^32 blocks");
        self.spans.extend_from_slice(&least.0.to_le_bytes());
        self.spans.extend_from_slice(&largest.0.to_le_bytes());
        let file = &mut self.file;
        let written: io::Result<()> = self.block.take(self.number, block, |b| file.write_all(b));
        written.map_err(FlatError::io("write", &self.path))
    }

    /// Puts the file on stable storage; its name is durable after its directory's sync.
    pub(super) fn finish(mut self) -> Result<VectorSegmentEntry, FlatError> {
        if self.block.rows() > 0 {
            self.end_block()?;
        }
        let write = || -> io::Result<()> {
            self.file.write_all(&self.spans)?;
            self.file.write_all(&self.shape.checksum(&self.spans).to_le_bytes())?;
            self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        };
        write().map_err(FlatError::io("write", &self.path))?;
        Ok(VectorSegmentEntry { number: self.number, rows: self.rows })
    }
}
