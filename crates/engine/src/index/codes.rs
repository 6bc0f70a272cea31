//! Codes of all nodes in memory, filled from disk behind the first searches.
//!
//! Opening an index must not wait for 32 bytes times a billion. The table is allocated at once
//! and filled block by block: a background thread streams through the files, and a search that
//! needs a block before its turn reads it itself, many at once. A small table it waits for: the
//! stream brings it sooner than thousands of scattered reads. When the last block has arrived, a
//! search pays one flag's test.
//!
//! Invariants: a block's bytes are written by the one thread that moved its state from ABSENT to
//! LOADING, and never after the state became PRESENT; codes are read only of PRESENT blocks.
#![expect(unsafe_code, reason = "blocks are filled behind readers of other blocks")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::format::BlockChecksums;
use crate::format::constants::BLOCK_BYTES;
use crate::io::{AlignedBuf, Backend, Device, Queue};
use crate::memory::Reservation;
use crate::quant::CodesView;
use crate::search::{CodeAccess, CodesUnavailable, ReadFailure};

pub(super) const ABSENT: u8 = 0;
pub(super) const LOADING: u8 = 1;
pub(super) const PRESENT: u8 = 2;

/// The codes of one partition on disk.
pub(super) struct CodesFile {
    pub(super) path: PathBuf,
    pub(super) device: Device,
    pub(super) checksums: BlockChecksums,
    /// Bytes of the body.
    pub(super) body_bytes: usize,
}

/// Where a block stands.
pub(super) struct BlockPlace {
    pub(super) file: usize,
    /// Which block of the file it is.
    pub(super) number: usize,
    /// Its first byte in the table.
    at: usize,
    pub(super) bytes: usize,
}

/// See the module's description.
pub(super) struct StreamedCodes {
    table: AlignedBuf,
    code_bytes: usize,
    rows: usize,
    pub(super) files: Vec<CodesFile>,
    /// First byte in `table`, and first block in `states`, of each file.
    starts: Vec<(usize, usize)>,
    pub(super) states: Box<[AtomicU8]>,
    missing: AtomicUsize,
    /// Those who wait for short reads; the stream lets them pass.
    pub(super) demanding: AtomicUsize,
    /// How often somebody has begun to wait so.
    pub(super) demands: AtomicUsize,
    /// Whether the background stream is under way.
    pub(super) streaming: AtomicBool,
    pub(super) stop: AtomicBool,
    /// Told when the last block is there, and when the stream stops or is to.
    pub(super) changed: (Mutex<()>, Condvar),
    pub(super) backend: Arc<dyn Backend>,
    /// Queues of searches that read codes themselves, while no search uses them.
    pub(super) idle: Mutex<Vec<Box<dyn Queue>>>,
    held: Mutex<Vec<Reservation>>,
}

impl StreamedCodes {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        files: Vec<CodesFile>,
        code_bytes: usize,
        spare: usize,
        held: Reservation,
    ) -> Self {
        let (mut bytes, mut blocks) = (0, 0);
        let mut starts = Vec::with_capacity(files.len());
        for file in &files {
            starts.push((bytes, blocks));
            bytes += file.body_bytes;
            blocks += file.checksums.len();
        }
        Self {
            table: AlignedBuf::zeroed(bytes + spare * code_bytes),
            code_bytes,
            rows: bytes / code_bytes + spare,
            files,
            starts,
            states: (0..blocks).map(|_| AtomicU8::new(ABSENT)).collect(),
            missing: AtomicUsize::new(blocks),
            demanding: AtomicUsize::new(0),
            demands: AtomicUsize::new(0),
            streaming: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            changed: Default::default(),
            backend,
            idle: Mutex::default(),
            held: Mutex::new(vec![held]),
        }
    }

    /// Puts the code of a node that had none. No edge leads to the node yet, so that nobody
    /// scores the code while it is written.
    ///
    /// # Panics
    /// Where codes are still missing, the node has no place, or the code another length.
    pub(super) fn put(&self, node: u32, code: &[u8]) {
        assert!(self.is_resident(), "codes are put when all others are in memory");
        assert!((node as usize) < self.rows, "the table has room for the node");
        assert_eq!(code.len(), self.code_bytes, "a code of this index");
        // SAFETY: the row lies in the table; blocks are not loaded any more, the row is written
        // once before its node is linked, and nobody reads the code of a node without links.
        unsafe {
            let to = self.table.as_ptr().add(node as usize * self.code_bytes).cast_mut();
            std::ptr::copy_nonoverlapping(code.as_ptr(), to, code.len());
        }
    }

    /// Bytes of the table.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.len()
    }

    /// Nodes that the table has room for.
    pub(super) fn room(&self) -> usize {
        self.rows
    }

    /// Bytes reserved for codes so far.
    pub(super) fn held_bytes(&self) -> u64 {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().map(Reservation::bytes).sum()
    }

    /// Keeps a reservation for codes that were put behind those on disk.
    pub(super) fn hold(&self, more: Reservation) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(more);
    }

    /// Bytes of the table and of what it needs beside, for accounting.
    pub(super) fn bytes_for(body_bytes: u64) -> u64 {
        body_bytes + body_bytes.div_ceil(BLOCK_BYTES as u64) * 9
    }

    pub(super) fn place(&self, block: usize) -> BlockPlace {
        let file = self.starts.partition_point(|&(_, first)| first <= block) - 1;
        let (first_byte, first_block) = self.starts[file];
        let number = block - first_block;
        let before = number * BLOCK_BYTES;
        let bytes = (self.files[file].body_bytes - before).min(BLOCK_BYTES);
        BlockPlace { file, number, at: first_byte + before, bytes }
    }

    /// Blocks that hold the code of a node: one, or two where it lies across their border.
    pub(super) fn blocks_of(&self, node: u32) -> std::ops::RangeInclusive<usize> {
        let byte = node as usize * self.code_bytes;
        let file = self.starts.partition_point(|&(first, _)| first <= byte) - 1;
        let (first_byte, first_block) = self.starts[file];
        let within = byte - first_byte;
        let last = within + self.code_bytes - 1;
        first_block + within / BLOCK_BYTES..=first_block + last / BLOCK_BYTES
    }

    /// Makes the caller the one who reads a block that nobody has read.
    pub(super) fn claim(&self, block: usize) -> bool {
        self.states[block]
            .compare_exchange(ABSENT, LOADING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Checks a block just read and publishes it. The caller has claimed it; it is absent again
    /// where it is damaged.
    pub(super) fn publish(&self, block: usize, bytes: &[u8]) -> Result<(), CodesUnavailable> {
        let BlockPlace { file, number, at, bytes: length } = self.place(block);
        let codes = &self.files[file];
        if let Err(e) = codes.checksums.verify(number as u64, &bytes[..length]) {
            self.states[block].store(ABSENT, Ordering::Release);
            return Err(CodesUnavailable(ReadFailure::damaged(format!(
                "{}: {e}",
                codes.path.display()
            ))));
        }
        // SAFETY: this thread claimed the block, so nobody else writes these bytes, and nobody
        // reads them before the store below; `place` keeps them within the table.
        unsafe {
            let to = self.table.as_ptr().add(at).cast_mut();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, length);
        }
        self.states[block].store(PRESENT, Ordering::Release);
        if self.missing.fetch_sub(1, Ordering::Release) == 1 {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
            self.tell();
        }
        Ok(())
    }

    /// Lets the stream give way until what is returned is dropped.
    pub(super) fn demand(&self) -> Demand<'_> {
        self.demanding.fetch_add(1, Ordering::Relaxed);
        self.demands.fetch_add(1, Ordering::Relaxed);
        Demand(self)
    }

    pub(super) fn tell(&self) {
        // Whoever holds the lock has not begun to wait, and looks again first.
        drop(self.changed.0.lock());
        self.changed.1.notify_all();
    }
}

/// Somebody waits for short reads.
pub(super) struct Demand<'a>(&'a StreamedCodes);

impl Drop for Demand<'_> {
    fn drop(&mut self) {
        self.0.demanding.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CodeAccess for StreamedCodes {
    #[inline]
    fn view(&self) -> CodesView<'_> {
        // SAFETY: the table holds rows x code_bytes bytes and lives as long as `self`; bytes of
        // blocks that are not present are not read (see `ensure`), and present ones not written.
        unsafe { CodesView::from_raw(self.table.as_ptr(), self.rows, self.code_bytes) }
    }

    fn ensure(&self, nodes: &[u32]) -> Result<(), CodesUnavailable> {
        if self.is_resident() || self.is_awaited() && self.wait_streamed() {
            return Ok(());
        }
        let _demand = self.demand();
        self.load_missing(nodes)
    }

    #[inline]
    fn is_resident(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }
}
