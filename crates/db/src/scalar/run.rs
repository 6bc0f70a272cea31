//! A run: the rows of a span of ids, with the entries and signatures of their columns; immutable.
//!
//! On disk it is one file: blocks of entries by column, each with its checksum; the signatures by
//! column; the directory; the trailer. Rows that are not flushed yet stand in runs in memory, as
//! the same bytes. The directory stays in memory, signatures as long as the collection is loaded
//! and there is room; blocks are read when they are asked for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipeann_engine::memory::{Accountant, OverLimit, Pool, Reservation};

use super::ScalarError;
use super::directory::{Directory, RunColumn, SignatureCode, TRAILER_BYTES, Trailer};
use super::entries::{EntryReader, EntryRows};
use super::key::KeySet;
use super::row_map::RowMap;
use crate::files::{agrees, checksum};
use crate::schema::FieldId;

/// Behind each block and the signatures of each column.
pub(super) const CHECKSUM_BYTES: usize = 8;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) number: u64,
    collection: [u8; 16],
    directory: Directory,
    bytes: RunBytes,
    /// Bytes in all.
    length: u64,
    _memory: Option<Reservation>,
}

#[derive(Debug)]
enum RunBytes {
    Memory(Vec<u8>),
    File(File, PathBuf),
}

/// The signatures of a run, by column.
#[derive(Debug)]
pub(super) struct Signatures {
    pub(super) columns: Vec<SignatureColumn>,
    memory: Option<Reservation>,
}

/// The signatures of a column, by place.
#[derive(Debug)]
pub(super) enum SignatureColumn {
    Codes(Box<[u8]>),
    Bits(Box<[u128]>),
}

/// A run as readers see it: with its signatures, where they are in memory.
#[derive(Clone, Debug)]
pub(super) struct OpenRun {
    pub(super) run: Arc<Run>,
    pub(super) signatures: Option<Arc<Signatures>>,
}

/// Name of a run's file.
pub(super) fn file_name(number: u64) -> String {
    format!("run-{number:06}")
}

/// What the checksum of a block covers beside its bytes, so that the block of another place does
/// not pass.
pub(super) fn block_sum(bytes: &[u8], collection: [u8; 16], number: u64, offset: u64) -> u64 {
    let mut place = [0; 32];
    place[..16].copy_from_slice(&collection);
    place[16..24].copy_from_slice(&number.to_le_bytes());
    place[24..].copy_from_slice(&offset.to_le_bytes());
    checksum(bytes) ^ checksum(&place)
}

impl Run {
    /// A run in memory.
    pub(super) fn in_memory(directory: Directory, collection: [u8; 16], bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u64;
        let bytes = RunBytes::Memory(bytes);
        Self { number: 0, collection, directory, bytes, length, _memory: None }
    }

    /// Opens the run of this number; blocks and signatures are checked when they are read.
    pub(super) fn open(
        dir: &Path,
        number: u64,
        collection: [u8; 16],
        accountant: &Arc<Accountant>,
    ) -> Result<Self, ScalarError> {
        let path = dir.join(file_name(number));
        let file = File::open(&path).map_err(|e| ScalarError::read(&path, e))?;
        let length = file.metadata().map_err(|e| ScalarError::read(&path, e))?.len();
        let short = || ScalarError::damaged(&path, format!("{length} bytes are no run"));
        let trailer_at = length.checked_sub(TRAILER_BYTES as u64).ok_or_else(short)?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, trailer_at).map_err(|e| ScalarError::read(&path, e))?;
        let trailer = Trailer::decode(&trailer, collection, number, &path)?;
        let end = trailer.directory_at.checked_add(trailer.directory_bytes);
        let bytes = usize::try_from(trailer.directory_bytes).ok();
        let bytes = bytes.filter(|_| end == Some(trailer_at)).ok_or_else(short)?;
        let mut directory = vec![0; bytes];
        let at = trailer.directory_at;
        file.read_exact_at(&mut directory, at).map_err(|e| ScalarError::read(&path, e))?;
        let directory = trailer.directory(&directory, &path)?;
        let memory = Some(accountant.reserve(Pool::Postings, directory.bytes())?);
        let bytes = RunBytes::File(file, path);
        Ok(Self { number, collection, directory, bytes, length, _memory: memory })
    }

    pub(super) fn map(&self) -> &RowMap {
        &self.directory.map
    }

    pub(super) fn columns(&self) -> &[RunColumn] {
        &self.directory.columns
    }

    /// Position of a field's column; `None` where the run is older than the field.
    pub(super) fn column(&self, field: FieldId) -> Option<usize> {
        self.columns().iter().position(|column| column.field == field)
    }

    /// Whether it is on disk.
    pub(super) fn is_on_disk(&self) -> bool {
        matches!(self.bytes, RunBytes::File(..))
    }

    /// Bytes on disk, or of memory before it is there.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes of its directory in memory.
    pub(super) fn directory_bytes(&self) -> u64 {
        self.directory.bytes()
    }

    /// The file, for messages.
    pub(super) fn path(&self) -> &Path {
        match &self.bytes {
            RunBytes::Memory(_) => Path::new("a run in memory"),
            RunBytes::File(_, path) => path,
        }
    }

    /// Bytes that its signatures take.
    pub(super) fn signature_bytes(&self) -> u64 {
        let widths: usize = self.columns().iter().map(|column| column.code.width()).sum();
        u64::from(self.map().rows()) * widths as u64
    }

    fn read<'b>(
        &'b self,
        at: u64,
        bytes: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], ScalarError> {
        match &self.bytes {
            RunBytes::Memory(all) => {
                let at = usize::try_from(at).expect("an offset in memory");
                Ok(&all[at..at + bytes])
            }
            RunBytes::File(file, path) => {
                if at.saturating_add(bytes as u64) > self.length {
                    return Err(ScalarError::damaged(path, "its directory points behind its end"));
                }
                buffer.resize(bytes, 0);
                file.read_exact_at(buffer, at).map_err(|e| ScalarError::read(path, e))?;
                Ok(buffer)
            }
        }
    }

    /// The entries of a block of a column.
    pub(super) fn block<'b>(
        &'b self,
        column: usize,
        block: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], ScalarError> {
        let at = &self.columns()[column].blocks[block];
        let read = self.read(at.offset, at.bytes as usize + CHECKSUM_BYTES, buffer)?;
        let (bytes, sum) = read.split_at(at.bytes as usize);
        // Memory is as trustworthy as the checksum of it.
        let stored = sum.first_chunk().map_or(0, |sum| u64::from_le_bytes(*sum));
        if self.is_on_disk()
            && !agrees(stored, block_sum(bytes, self.collection, self.number, at.offset))
        {
            let what = format!("the block at byte {} fails its checksum", at.offset);
            return Err(ScalarError::damaged(self.path(), what));
        }
        Ok(bytes)
    }

    /// Calls `each` with the entries of a column whose keys are in `keys`, in order.
    pub(super) fn entries(
        &self,
        column: usize,
        keys: &KeySet,
        mut each: impl FnMut(&[u8], EntryRows<'_>) -> Result<(), ScalarError>,
    ) -> Result<(), ScalarError> {
        let blocks = &self.columns()[column].blocks;
        let mut ranges = keys.ranges();
        let mut buffer = Vec::new();
        let mut block = 0;
        while let Some(range) = ranges.first() {
            // The last block that begins at or before the range may have its first key.
            let begins = blocks[block..].partition_point(|at| at.first <= range.from);
            block += begins.saturating_sub(1);
            let Some(at) = blocks.get(block) else { return Ok(()) };
            if range.ends_before(&at.first) {
                ranges = &ranges[1..];
                continue;
            }
            let mut entries = EntryReader::new(self.block(column, block, &mut buffer)?, self.map());
            while let Some(rows) = entries.next().map_err(|_| self.bad_entry())? {
                while ranges.first().is_some_and(|range| range.ends_before(entries.key())) {
                    ranges = &ranges[1..];
                }
                match ranges.first() {
                    None => return Ok(()),
                    Some(range) if *range.from <= *entries.key() => each(entries.key(), rows)?,
                    Some(_) => {}
                }
            }
            block += 1;
            // What ends before the next block is done with.
            let next = blocks.get(block).map(|at| at.first.as_slice());
            let Some(next) = next else { return Ok(()) };
            while ranges.first().is_some_and(|range| range.ends_before(next)) {
                ranges = &ranges[1..];
            }
        }
        Ok(())
    }

    pub(super) fn bad_entry(&self) -> ScalarError {
        ScalarError::damaged(self.path(), "an entry cannot be read")
    }

    /// Reads the signatures of a column.
    pub(super) fn read_signatures(&self, column: usize) -> Result<SignatureColumn, ScalarError> {
        let RunColumn { code, signatures_at, signatures_sum, .. } = &self.columns()[column];
        let bytes = self.map().rows() as usize * code.width();
        let mut buffer = Vec::new();
        let read = self.read(*signatures_at, bytes, &mut buffer)?;
        let computed = block_sum(read, self.collection, self.number, *signatures_at);
        if !agrees(*signatures_sum, computed) {
            let what = format!("the signatures at byte {signatures_at} fail their checksum");
            return Err(ScalarError::damaged(self.path(), what));
        }
        Ok(match code {
            SignatureCode::Buckets(_) => SignatureColumn::Codes(read.into()),
            SignatureCode::Elements(_) => {
                let (bits, _) = read.as_chunks();
                SignatureColumn::Bits(bits.iter().map(|bits| u128::from_le_bytes(*bits)).collect())
            }
        })
    }

    /// Reads the signatures of all columns into memory; `None` where there is no room for them.
    pub(super) fn load(
        &self,
        accountant: &Arc<Accountant>,
    ) -> Result<Option<Signatures>, ScalarError> {
        match accountant.reserve(Pool::Postings, self.signature_bytes()) {
            Ok(memory) => {
                let columns = (0..self.columns().len()).map(|column| self.read_signatures(column));
                Ok(Some(Signatures {
                    columns: columns.collect::<Result<_, _>>()?,
                    memory: Some(memory),
                }))
            }
            Err(over) => {
                tracing::warn!(run = self.number, "filters work without signatures: {over}");
                Ok(None)
            }
        }
    }
}

impl Signatures {
    pub(super) fn new(columns: Vec<SignatureColumn>) -> Self {
        Self { columns, memory: None }
    }

    /// The same, granted by the accountant.
    ///
    /// # Errors
    /// [`OverLimit`].
    pub(super) fn charged(
        self,
        bytes: u64,
        accountant: &Arc<Accountant>,
    ) -> Result<Self, OverLimit> {
        let memory = Some(accountant.reserve(Pool::Postings, bytes)?);
        Ok(Self { columns: self.columns, memory })
    }

    /// Bytes that the accountant granted.
    pub(super) fn charged_bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, Reservation::bytes)
    }
}
