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
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::format::constants::{ALIGNMENT, BLOCK_BYTES};
use crate::format::{BlockChecksums, FileKind};
use crate::io::{AlignedBuf, Backend, Device, Queue, QueueOptions, Wait};
use crate::memory::Reservation;
use crate::quant::CodesView;
use crate::search::{CodeAccess, CodesUnavailable};

const ABSENT: u8 = 0;
const LOADING: u8 = 1;
const PRESENT: u8 = 2;

/// Blocks in flight of a search that reads codes itself.
const DEMAND_DEPTH: usize = 64;
/// Blocks in flight of the background stream.
const STREAM_DEPTH: usize = 16;
/// Longest read of the background stream, blocks.
const STREAM_BLOCKS: usize = 64;
/// Largest table that a search waits for, bytes. A first search reads some 3,000 blocks of codes
/// itself; in that time a stream at full depth brings about this much.
const AWAITED_BYTES: usize = 64 << 20;

/// The codes of one partition on disk.
pub(super) struct CodesFile {
    pub(super) path: PathBuf,
    pub(super) device: Device,
    pub(super) checksums: BlockChecksums,
    /// Bytes of the body.
    pub(super) body_bytes: usize,
}

/// See the module's description.
pub(super) struct StreamedCodes {
    table: AlignedBuf,
    code_bytes: usize,
    rows: usize,
    files: Vec<CodesFile>,
    /// First byte in `table`, and first block in `states`, of each file.
    starts: Vec<(usize, usize)>,
    states: Box<[AtomicU8]>,
    missing: AtomicUsize,
    /// Searches that wait for blocks of their own; the stream lets them pass.
    demanding: AtomicUsize,
    /// Whether the background stream is under way.
    streaming: AtomicBool,
    stop: AtomicBool,
    /// Told when searches have their blocks, when the last block is there, and on the stop.
    changed: (Mutex<()>, Condvar),
    failure: OnceLock<String>,
    backend: Arc<dyn Backend>,
    demand: Mutex<Option<Box<dyn Queue>>>,
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
            streaming: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            changed: Default::default(),
            failure: OnceLock::new(),
            backend,
            demand: Mutex::new(None),
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

    /// File, block within the file, first byte in the table and length of a block.
    fn place(&self, block: usize) -> (usize, usize, usize, usize) {
        let file = self.starts.partition_point(|&(_, first)| first <= block) - 1;
        let (first_byte, first_block) = self.starts[file];
        let at = (block - first_block) * BLOCK_BYTES;
        let bytes = (self.files[file].body_bytes - at).min(BLOCK_BYTES);
        (file, block - first_block, first_byte + at, bytes)
    }

    /// Blocks that hold the code of a node: one, or two where it lies across their border.
    fn blocks_of(&self, node: u32) -> std::ops::RangeInclusive<usize> {
        let byte = node as usize * self.code_bytes;
        let file = self.starts.partition_point(|&(first, _)| first <= byte) - 1;
        let (first_byte, first_block) = self.starts[file];
        let within = byte - first_byte;
        let last = within + self.code_bytes - 1;
        first_block + within / BLOCK_BYTES..=first_block + last / BLOCK_BYTES
    }

    fn claim(&self, block: usize) -> bool {
        self.states[block]
            .compare_exchange(ABSENT, LOADING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Checks a block just read and publishes it. The caller has claimed it.
    fn publish(&self, block: usize, bytes: &[u8]) -> Result<(), CodesUnavailable> {
        let (file, number, at, length) = self.place(block);
        let codes = &self.files[file];
        if let Err(e) = codes.checksums.verify(number as u64, &bytes[..length]) {
            let why = format!("{}: {e}", codes.path.display());
            return Err(self.fail(block, why));
        }
        // SAFETY: this thread claimed the block, so nobody else writes these bytes, and nobody
        // reads them before the store below; `place` keeps them within the table.
        unsafe {
            let to = self.table.as_ptr().add(at).cast_mut();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, length);
        }
        self.states[block].store(PRESENT, Ordering::Release);
        if self.missing.fetch_sub(1, Ordering::Release) == 1 {
            self.tell();
        }
        Ok(())
    }

    fn fail(&self, block: usize, why: String) -> CodesUnavailable {
        self.states[block].store(ABSENT, Ordering::Release);
        CodesUnavailable(self.failure.get_or_init(|| why).clone())
    }

    /// Reads the blocks in `wanted`, which the caller has claimed, through `queue`, in runs of
    /// up to `run` neighbouring blocks.
    fn load(
        &self,
        queue: &mut dyn Queue,
        wanted: &[usize],
        run: usize,
    ) -> Result<(), CodesUnavailable> {
        let mut rest = wanted.iter().copied().peekable();
        let mut completions = Vec::with_capacity(DEMAND_DEPTH);
        let mut outcome = Ok(());
        loop {
            while rest.peek().is_some()
                && let Some(buffer) = queue.take_buffer()
            {
                let first = rest.next().expect("peeked");
                let (file, number, ..) = self.place(first);
                let mut count = 1;
                while count < run
                    && rest.peek() == Some(&(first + count))
                    && self.place(first + count).0 == file
                {
                    rest.next();
                    count += 1;
                }
                let offset = FileKind::Codes.body_offset() + (number * BLOCK_BYTES) as u64;
                let tag = (first as u64) << 16 | count as u64;
                let device = &self.files[file].device;
                // The last block may be shorter; the file is padded to whole sectors behind it.
                let length = (count - 1) * BLOCK_BYTES + self.place(first + count - 1).3;
                let length = length.next_multiple_of(ALIGNMENT);
                if let Err(e) = queue.push_read(device, offset, length, buffer, tag) {
                    queue.return_buffer(buffer);
                    outcome = Err(self.fail_run(first, count, e.to_string()));
                }
            }
            if queue.in_flight() == 0 {
                return outcome;
            }
            completions.clear();
            if let Err(e) = queue.wait(&mut completions) {
                return Err(CodesUnavailable(e.to_string()));
            }
            for c in &completions {
                let (first, count) = ((c.tag >> 16) as usize, (c.tag & 0xFFFF) as usize);
                match &c.result {
                    Ok(_) => {
                        let bytes = queue.buffer(c.buffer);
                        for i in 0..count {
                            let published = self.publish(first + i, &bytes[i * BLOCK_BYTES..]);
                            outcome = outcome.and(published);
                        }
                    }
                    Err(e) => outcome = Err(self.fail_run(first, count, e.to_string())),
                }
                queue.return_buffer(c.buffer);
            }
        }
    }

    fn fail_run(&self, first: usize, count: usize, why: String) -> CodesUnavailable {
        let path = self.files[self.place(first).0].path.display();
        let mut failed = CodesUnavailable(String::new());
        for block in first..first + count {
            failed = self.fail(block, format!("{path}: {why}"));
        }
        failed
    }

    fn queue(&self, depth: usize, blocks: usize) -> Result<Box<dyn Queue>, CodesUnavailable> {
        let options = QueueOptions {
            depth,
            buffers: depth,
            buffer_bytes: blocks * BLOCK_BYTES,
            sqpoll: false,
            wait: Wait::Sleep,
        };
        self.backend.queue(&options).map_err(|e| CodesUnavailable(e.to_string()))
    }

    /// Loads everything that is missing; the body of the background thread. A failure is kept
    /// for the search that needs the block.
    fn stream(&self) {
        let Ok(mut queue) = self.queue(STREAM_DEPTH, STREAM_BLOCKS) else { return };
        let share = STREAM_DEPTH * STREAM_BLOCKS;
        for from in (0..self.states.len()).step_by(share) {
            self.wait_while(|codes| codes.demanding.load(Ordering::Relaxed) > 0);
            if self.stopped() {
                return;
            }
            let until = (from + share).min(self.states.len());
            let wanted: Vec<usize> = (from..until).filter(|&b| self.claim(b)).collect();
            // What fails is left absent: the search that needs it tries again and reports.
            let _ = self.load(queue.as_mut(), &wanted, STREAM_BLOCKS);
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the background stream is under way.
    pub(super) fn is_streaming(&self) -> bool {
        self.streaming.load(Ordering::Acquire)
    }

    /// Waits until the background stream has brought all codes or has ended. True where it
    /// brought all.
    pub(super) fn wait_streamed(&self) -> bool {
        self.wait_while(|codes| !codes.is_resident() && codes.is_streaming());
        self.is_resident()
    }

    /// Waits while `condition` holds and nobody asked to stop. Looks again after a while: a
    /// thread that ends tells nobody.
    fn wait_while(&self, condition: impl Fn(&Self) -> bool) {
        let (lock, changed) = &self.changed;
        let mut guard: MutexGuard<'_, ()> = lock.lock().expect("no holder of this lock panics");
        while condition(self) && !self.stopped() {
            let waited = changed.wait_timeout(guard, Duration::from_millis(1));
            guard = waited.expect("no holder of this lock panics").0;
        }
    }

    fn tell(&self) {
        self.changed.1.notify_all();
    }

    fn load_missing(&self, nodes: &[u32]) -> Result<(), CodesUnavailable> {
        let mut blocks: Vec<usize> = nodes.iter().flat_map(|&n| self.blocks_of(n)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.retain(|&b| self.states[b].load(Ordering::Acquire) != PRESENT);
        let claimed: Vec<usize> = blocks.iter().copied().filter(|&b| self.claim(b)).collect();
        if !claimed.is_empty() {
            let mut queue = self.demand.lock().expect("no holder of this lock panics");
            if queue.is_none() {
                match self.queue(DEMAND_DEPTH, 1) {
                    Ok(made) => *queue = Some(made),
                    Err(e) => {
                        claimed
                            .iter()
                            .for_each(|&b| self.states[b].store(ABSENT, Ordering::Release));
                        return Err(e);
                    }
                }
            }
            self.load(queue.as_mut().expect("made above").as_mut(), &claimed, 1)?;
        }
        // Another thread may be loading some of them; what it gave up is tried here.
        for block in blocks {
            loop {
                match self.states[block].load(Ordering::Acquire) {
                    PRESENT => break,
                    ABSENT => return self.load_missing(nodes),
                    _ => std::thread::yield_now(),
                }
            }
        }
        Ok(())
    }
}

/// The background thread that fills a table of codes; ends with this value.
pub(super) struct CodeStream {
    codes: Arc<StreamedCodes>,
    /// The thread, and the process that it runs in; without it searches read codes themselves.
    thread: Option<(JoinHandle<()>, u32)>,
}

impl CodeStream {
    /// Starts the stream.
    pub(super) fn start(codes: Arc<StreamedCodes>) -> Self {
        let of_thread = Arc::clone(&codes);
        codes.streaming.store(true, Ordering::Release);
        let named = std::thread::Builder::new().name("pipeann-codes".into());
        let body = move || {
            // Also where the stream panics, so that nobody waits for it then.
            let _ended = Ended(&of_thread);
            of_thread.stream();
        };
        let thread = named.spawn(body).ok().map(|thread| (thread, std::process::id()));
        if thread.is_none() {
            codes.streaming.store(false, Ordering::Release);
        }
        Self { codes, thread }
    }
}

struct Ended<'a>(&'a StreamedCodes);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.streaming.store(false, Ordering::Release);
        self.0.tell();
    }
}

impl Drop for CodeStream {
    fn drop(&mut self) {
        self.codes.stop.store(true, Ordering::Relaxed);
        self.codes.tell();
        if let Some((thread, process)) = self.thread.take()
            && std::process::id() == process
        {
            // A panic of the stream has been printed already; nothing is lost by it.
            let _ = thread.join();
        }
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
        if self.is_resident() || self.table.len() <= AWAITED_BYTES && self.wait_streamed() {
            return Ok(());
        }
        self.demanding.fetch_add(1, Ordering::Relaxed);
        let outcome = self.load_missing(nodes);
        self.demanding.fetch_sub(1, Ordering::Relaxed);
        self.tell();
        outcome
    }

    #[inline]
    fn is_resident(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }
}
