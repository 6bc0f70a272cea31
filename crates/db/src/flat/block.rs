//! A block of a segment: the unit of reading and checking.
//!
//! `header | row ids | vectors | zeros`, of fixed length, with room for a fixed number of rows;
//! the last block of a segment may be partly filled. The header says of which segment and which
//! block in it this is, and its checksum covers the field, so that intact bytes from another
//! place, or of another field, do not pass.

use crate::files::{ByteField, agrees, checksum, field, put, u32_at, u64_at};
use crate::ids::{RowId, VectorType};

const F_CHECKSUM: ByteField = field("checksum", 0, 8);
const F_SEGMENT: ByteField = field("segment", 8, 8);
const F_BLOCK: ByteField = field("block", 16, 4);
const F_ROWS: ByteField = field("rows", 20, 4);

/// The header, in order.
#[cfg(test)]
pub(super) const HEADER: &[ByteField] = &[F_CHECKSUM, F_SEGMENT, F_BLOCK, F_ROWS];
pub(super) const HEADER_BYTES: usize = 24;

/// Bytes of a block, unless one row needs more.
const LEAST_BLOCK_BYTES: usize = 64 << 10;
/// Blocks are a multiple of this, so that they can be read directly.
const ALIGNMENT: usize = 4096;
const ROW_BYTES: usize = 8;

/// What all blocks of a field have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockShape {
    field: [u8; 16],
    dim: usize,
    vector_type: VectorType,
    block_bytes: usize,
}

impl BlockShape {
    pub(super) fn new(field: [u8; 16], dim: usize, vector_type: VectorType) -> Self {
        assert!(dim > 0, "vectors have at least one dimension");
        let one_row = HEADER_BYTES + ROW_BYTES + vector_type.vector_bytes(dim);
        let block_bytes = LEAST_BLOCK_BYTES.max(one_row.next_multiple_of(ALIGNMENT));
        Self { field, dim, vector_type, block_bytes }
    }

    /// Identity of the field.
    pub(super) fn field(&self) -> [u8; 16] {
        self.field
    }

    pub(super) fn dim(&self) -> usize {
        self.dim
    }

    /// The checksum of bytes of this field.
    pub(super) fn checksum(&self, bytes: &[u8]) -> u64 {
        checksum(bytes) ^ checksum(&self.field)
    }

    pub(super) fn vector_type(&self) -> VectorType {
        self.vector_type
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    pub(super) fn vector_bytes(&self) -> usize {
        self.vector_type.vector_bytes(self.dim)
    }

    /// Rows that a block has room for.
    pub(super) fn capacity(&self) -> usize {
        (self.block_bytes - HEADER_BYTES) / (ROW_BYTES + self.vector_bytes())
    }

    fn vectors_offset(&self) -> usize {
        HEADER_BYTES + self.capacity() * ROW_BYTES
    }
}

/// Fills one block after the other.
pub(super) struct BlockWriter {
    shape: BlockShape,
    bytes: Vec<u8>,
    rows: usize,
}

impl BlockWriter {
    pub(super) fn new(shape: BlockShape) -> Self {
        Self { shape, bytes: vec![0; shape.block_bytes], rows: 0 }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows == self.shape.capacity()
    }

    /// Adds a row; the block must not be full.
    pub(super) fn push(&mut self, row: RowId, vector: &[u8]) {
        assert!(!self.is_full(), "a full block is taken before the next row");
        let at = HEADER_BYTES + self.rows * ROW_BYTES;
        self.bytes[at..at + ROW_BYTES].copy_from_slice(&row.0.to_le_bytes());
        let n = self.shape.vector_bytes();
        let at = self.shape.vectors_offset() + self.rows * n;
        self.bytes[at..at + n].copy_from_slice(vector);
        self.rows += 1;
    }

    /// Hands out the block as number `block` of `segment`, and begins an empty one.
    pub(super) fn take<T>(
        &mut self,
        segment: u64,
        block: u32,
        write: impl FnOnce(&[u8]) -> T,
    ) -> T {
        let rows = u32::try_from(self.rows).expect("a block has fewer rows than bytes");
        put(&mut self.bytes, F_SEGMENT, &segment.to_le_bytes());
        put(&mut self.bytes, F_BLOCK, &block.to_le_bytes());
        put(&mut self.bytes, F_ROWS, &rows.to_le_bytes());
        let sum = self.shape.checksum(&self.bytes[F_SEGMENT.offset..]);
        put(&mut self.bytes, F_CHECKSUM, &sum.to_le_bytes());
        let done = write(&self.bytes);
        self.bytes.fill(0);
        self.rows = 0;
        done
    }
}

/// A block that was read and checked.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    shape: BlockShape,
    bytes: &'a [u8],
    rows: usize,
}

impl<'a> Block<'a> {
    /// Checks that `bytes` are block `block` of `segment`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn new(
        shape: BlockShape,
        bytes: &'a [u8],
        segment: u64,
        block: u32,
    ) -> Result<Self, String> {
        assert_eq!(bytes.len(), shape.block_bytes, "a whole block is read");
        if !agrees(u64_at(bytes, F_CHECKSUM), shape.checksum(&bytes[F_SEGMENT.offset..])) {
            return Err(format!("block {block} fails its checksum"));
        }
        let found = (u64_at(bytes, F_SEGMENT), u32_at(bytes, F_BLOCK));
        if found != (segment, block) {
            return Err(format!(
                "block {block} of segment {segment} is block {} of segment {}",
                found.1, found.0
            ));
        }
        let rows = u32_at(bytes, F_ROWS) as usize;
        if rows > shape.capacity() {
            return Err(format!(
                "block {block} claims {rows} rows, room is for {}",
                shape.capacity()
            ));
        }
        Ok(Self { shape, bytes, rows })
    }

    pub(super) fn rows(&self) -> impl ExactSizeIterator<Item = RowId> + 'a {
        let ids = &self.bytes[HEADER_BYTES..HEADER_BYTES + self.rows * ROW_BYTES];
        ids.as_chunks::<ROW_BYTES>().0.iter().map(|id| RowId(u64::from_le_bytes(*id)))
    }

    /// The vectors of the rows, back to back.
    pub(super) fn vectors(&self) -> &'a [u8] {
        let at = self.shape.vectors_offset();
        &self.bytes[at..at + self.rows * self.shape.vector_bytes()]
    }
}
