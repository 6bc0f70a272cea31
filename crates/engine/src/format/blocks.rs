//! Checksums of a blocked file: one for each 4 KiB of the body.
//!
//! With the array resident (8 bytes per 4 KiB, 1/512 of the body), any block is verified
//! after reading only that block. Each checksum covers the index's uuid, the kind and
//! generation of the file and the block's number, so a block is accepted in its place only.

use super::checksum::{checksum, mix};
use super::constants::{ALIGNMENT, BLOCK_BYTES, file_header};
use super::error::FormatError;
use super::file_header::FileHeader;

/// Blocks of a body; the last one may be shorter.
pub const fn block_count(body_bytes: u64) -> u64 {
    body_bytes.div_ceil(BLOCK_BYTES as u64)
}

/// The checksum array of a blocked file, with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockChecksums {
    /// Without its checksum, which [`header`](Self::header) computes.
    header: FileHeader,
    sums: Vec<u64>,
}

impl BlockChecksums {
    /// Starts the array of a file whose body will be [`push`](Self::push)ed block by block.
    /// `header.body_bytes` and `header.body_checksum` follow from the blocks; what they are here
    /// does not matter.
    ///
    /// # Panics
    /// Where the file's kind is not blocked.
    pub fn start(header: FileHeader) -> Self {
        assert!(header.kind.is_blocked(), "{} is no blocked file", header.kind);
        Self { header: FileHeader { body_bytes: 0, body_checksum: 0, ..header }, sums: Vec::new() }
    }

    /// The array for a body that is in memory.
    ///
    /// # Panics
    /// Where the file's kind is not blocked.
    pub fn of_body(header: FileHeader, body: &[u8]) -> Self {
        let mut blocks = Self::start(header);
        for block in body.chunks(BLOCK_BYTES) {
            blocks.push(block);
        }
        blocks
    }

    /// Adds the next block.
    ///
    /// # Panics
    /// Where the block is empty or longer than 4 KiB, or follows a shorter one.
    pub fn push(&mut self, block: &[u8]) {
        assert!((1..=BLOCK_BYTES).contains(&block.len()), "a block has 1 to {BLOCK_BYTES} bytes");
        let whole = self.sums.len() as u64 * BLOCK_BYTES as u64;
        assert_eq!(self.header.body_bytes, whole, "only the last block is shorter");
        self.sums.push(self.sum(self.sums.len() as u64, block));
        self.header.body_bytes += block.len() as u64;
    }

    /// Reads the array that stands at [`checksums_offset`](super::FileKind::checksums_offset);
    /// `bytes` may go on behind it.
    ///
    /// # Errors
    /// [`FormatError::CutOff`] where it is too short, [`FormatError::Checksum`] where damaged.
    ///
    /// # Panics
    /// Where the file's kind is not blocked.
    pub fn decode(header: &FileHeader, bytes: &[u8]) -> Result<Self, FormatError> {
        assert!(header.kind.is_blocked(), "{} is no blocked file", header.kind);
        let part = "the checksum array";
        let array_bytes = usize::try_from(block_count(header.body_bytes)).ok();
        let array_bytes = array_bytes.and_then(|blocks| blocks.checked_mul(8));
        let array = array_bytes.and_then(|length| bytes.get(..length));
        let array = array.ok_or(FormatError::CutOff { kind: header.kind, part })?;
        header.check(array, part)?;
        let sums = array.as_chunks::<8>().0.iter().map(|sum| u64::from_le_bytes(*sum)).collect();
        Ok(Self { header: FileHeader { body_checksum: 0, ..*header }, sums })
    }

    /// The file's header for the blocks so far.
    pub fn header(&self) -> FileHeader {
        let body_checksum = checksum(self.header.seed(), &self.array());
        FileHeader { body_checksum, ..self.header }
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// The first 4096 bytes of the file.
    pub fn encode_head(&self) -> Vec<u8> {
        let mut out = vec![0; ALIGNMENT];
        out[..file_header::BYTES].copy_from_slice(&self.header().encode());
        out
    }

    /// What follows the body: zeros up to the array, the array, zeros up to the file's end.
    pub fn encode_tail(&self) -> Vec<u8> {
        let body_end = self.header.kind.body_offset() + self.header.body_bytes;
        let gap = (body_end.next_multiple_of(ALIGNMENT as u64) - body_end) as usize;
        let mut out = vec![0; gap];
        out.extend_from_slice(&self.array());
        out.resize((self.header.file_bytes() - body_end) as usize, 0);
        out
    }

    /// Verifies block `number`, whose bytes are `block` (without what pads it).
    ///
    /// # Errors
    /// [`FormatError::Block`] where it is damaged or stands elsewhere, [`FormatError::Length`]
    /// where it has another length, [`FormatError::Value`] where there is no such block.
    pub fn verify(&self, number: u64, block: &[u8]) -> Result<(), FormatError> {
        let kind = self.header.kind;
        let stored = usize::try_from(number).ok().and_then(|at| self.sums.get(at));
        let Some(&expected) = stored else {
            let expected = format!("below {}", self.sums.len());
            return Err(FormatError::value(kind, "block", expected, number));
        };
        let length = (self.header.body_bytes - number * BLOCK_BYTES as u64).min(BLOCK_BYTES as u64);
        if block.len() as u64 != length {
            let found = block.len() as u64;
            return Err(FormatError::Length { kind, expected: length, found });
        }
        let found = self.sum(number, block);
        if found != expected {
            return Err(FormatError::Block { kind, block: number, expected, found });
        }
        Ok(())
    }

    fn sum(&self, number: u64, block: &[u8]) -> u64 {
        checksum(mix(self.header.seed(), number), block)
    }

    fn array(&self) -> Vec<u8> {
        self.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()
    }
}
