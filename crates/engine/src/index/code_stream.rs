//! The background thread that brings all codes into memory, behind the first searches.
//!
//! It brings a small table sooner than a search could read what it needs of it, so searches wait
//! for the stream, which has the device for itself. Of a large table a search reads some thousand
//! blocks itself, and each read would wait behind the long ones of the stream. So the stream gives
//! way then, though never for long at a time: under a steady load it goes on, slower.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::codes::StreamedCodes;
use crate::search::CodeAccess;

/// Largest table that searches wait for. A first search needs some 2,000 blocks in forty rounds; in
/// the 30 ms that these take, the stream brings about this much.
const AWAITED_BYTES: usize = 64 << 20;
/// Reads in flight. The device gives all it has to four of this length; the others wait while blocks
/// are checked and copied.
const DEPTH: usize = 8;
/// Longest read, blocks.
const RUN: usize = 64;
/// How long the stream gives way at a time.
const GIVE_WAY: Duration = Duration::from_millis(8);
/// Blocks that it reads then, though searches go on.
const SHARE: usize = 256;
/// How long nobody must have asked for codes before the stream goes on.
const QUIET: Duration = Duration::from_millis(1);

impl StreamedCodes {
    /// Loads everything that is missing; the body of the background thread. A failure is left to
    /// the search that needs the block: it tries again, and reports.
    fn stream(&self) {
        let Ok(mut queue) = self.queue(DEPTH, RUN) else { return };
        let mut rest = 0..self.states.len();
        while !rest.is_empty() && !self.stopped() {
            let demands = self.give_way();
            let mut share = 0;
            let wanted = std::iter::from_fn(|| {
                if self.stopped() || share >= SHARE && self.is_demanded(demands) {
                    return None;
                }
                share += 1;
                rest.find(|&block| self.claim(block))
            });
            let _ = self.load(queue.as_mut(), wanted, RUN);
        }
    }

    /// Whether a search reads codes, or has begun to since so many had.
    fn is_demanded(&self, before: usize) -> bool {
        let demanding = self.demanding.load(Ordering::Relaxed) > 0;
        !self.is_awaited() && (demanding || self.demands.load(Ordering::Relaxed) != before)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until nobody has asked for codes for a moment, or has waited long enough. Returns
    /// how often somebody had asked by then.
    fn give_way(&self) -> usize {
        let since = Instant::now();
        let mut before = self.demands.load(Ordering::Relaxed);
        if self.is_awaited() {
            return before;
        }
        loop {
            self.pause();
            let demands = self.demands.load(Ordering::Relaxed);
            if !self.is_demanded(before) || since.elapsed() >= GIVE_WAY || self.stopped() {
                return demands;
            }
            before = demands;
        }
    }

    /// Whether the background stream is under way.
    pub(super) fn is_streaming(&self) -> bool {
        self.streaming.load(Ordering::Acquire)
    }

    /// Waits until the background stream has brought all codes or has ended. True where it
    /// brought all.
    pub(super) fn wait_streamed(&self) -> bool {
        while !self.is_resident() && self.is_streaming() {
            self.pause();
        }
        self.is_resident()
    }

    /// Whether searches wait for the stream rather than read codes themselves.
    pub(super) fn is_awaited(&self) -> bool {
        self.table_bytes() <= AWAITED_BYTES
    }

    /// Waits for a moment, or until it is told that all codes have come or the stream is over.
    fn pause(&self) {
        let (lock, changed) = &self.changed;
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.stopped() && !self.is_resident() {
            drop(changed.wait_timeout(guard, QUIET));
        }
    }
}

/// The background thread; ends with this value.
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
            let _ended = StreamGuard(&of_thread);
            of_thread.stream();
        };
        let thread = named.spawn(body).ok().map(|thread| (thread, std::process::id()));
        if thread.is_none() {
            codes.streaming.store(false, Ordering::Release);
        }
        Self { codes, thread }
    }
}

struct StreamGuard<'a>(&'a StreamedCodes);

impl Drop for StreamGuard<'_> {
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
