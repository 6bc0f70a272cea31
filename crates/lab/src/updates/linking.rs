//! Rows linked into an index by several threads, as fast as they can or at a rate, with a
//! checkpoint whenever so many rows are dirty.
//!
//! Times of links and of checkpoints are told apart: inserts wait while a checkpoint is written,
//! so the rows linked in a second are given with and without them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pipeann_engine::types::{RowId, VectorSet};
use pipeann_engine::update::{CheckpointReport, LinkPace, LiveIndex};
use pipeann_server::interrupt;

use super::at_once::{AT_ONCE, insert_rows};
use super::log_bytes::log_bytes;

/// At a rate rows come a few at a time, and there is time.
const AT_ONCE_AT_A_RATE: usize = 4;

/// What to link, and how.
#[derive(Clone)]
pub(crate) struct Linking<'a> {
    /// The index.
    pub(crate) index: &'a LiveIndex,
    /// Row `i` of these gets the row id `i`.
    pub(crate) vectors: VectorSet<'a>,
    /// The rows to link.
    pub(crate) rows: std::ops::Range<usize>,
    /// Threads that link.
    pub(crate) threads: usize,
    /// Rows a second over all threads; as fast as they can without.
    pub(crate) rate: Option<f64>,
    /// Niceness of the threads: how much they give way to others.
    pub(crate) nice: u8,
    /// A checkpoint after so many rows; without it only where the index asks for one.
    pub(crate) dirty_rows: Option<usize>,
}

/// What linking took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linked {
    /// Rows linked.
    pub(crate) rows: usize,
    /// From the first row to the last, checkpoints included.
    pub(crate) wall_s: f64,
    /// Time in inserts, summed over the threads.
    pub(crate) insert_s: f64,
    /// Bytes that a collection would have put into its log.
    pub(crate) log_bytes: u64,
    /// Most bytes that pending changes held before a checkpoint.
    pub(crate) pending_bytes: u64,
    /// Checkpoints, and how long each took in seconds.
    pub(crate) checkpoints: Vec<(CheckpointReport, f64)>,
}

/// Behind the rows linked so far.
struct LinkProgress<'a> {
    next: AtomicUsize,
    done: AtomicUsize,
    started: Instant,
    cancel: &'a AtomicBool,
    /// Of all threads; what each has counted for itself is added when it ends.
    linked: Mutex<Linked>,
}

impl Linking<'_> {
    /// Links all rows.
    ///
    /// # Errors
    /// What an insert or a checkpoint fails at, or that `cancel` was set.
    pub(crate) fn run(&self, cancel: &AtomicBool) -> Result<Linked> {
        let progress = LinkProgress {
            next: AtomicUsize::new(self.rows.start),
            done: AtomicUsize::new(0),
            started: Instant::now(),
            cancel,
            linked: Mutex::default(),
        };
        std::thread::scope(|s| {
            let threads: Vec<_> =
                (0..self.threads).map(|_| s.spawn(|| self.link_rows(&progress))).collect();
            threads.into_iter().try_for_each(|t| t.join().expect("a linking thread does not panic"))
        })?;
        let mut linked = progress.linked.into_inner().expect("no holder of this lock panics");
        linked.wall_s = progress.started.elapsed().as_secs_f64();
        linked.pending_bytes = linked.pending_bytes.max(self.index.pending_bytes());
        Ok(linked)
    }

    fn link_rows(&self, progress: &LinkProgress<'_>) -> Result<()> {
        self.index.enter_link_thread();
        if self.nice > 0 {
            // On Linux the calling thread alone is meant.
            rustix::process::setpriority_process(None, self.nice.into()).context("--nice")?;
        }
        let (at_once, pace) = match self.rate {
            Some(_) => (AT_ONCE_AT_A_RATE, LinkPace::Gentle),
            None => (AT_ONCE, LinkPace::Full),
        };
        let (mut rows, mut bytes, mut spent) = (0, 0, Duration::ZERO);
        loop {
            let first = progress.next.fetch_add(at_once, Ordering::Relaxed);
            let until = self.rows.end.min(first + at_once);
            if first >= until {
                break;
            }
            interrupt::check(progress.cancel)?;
            self.await_turn(first, progress.started);
            let begun = Instant::now();
            insert_rows(
                (self.index, pace),
                (first..until).map(|row| (RowId(row as u64), self.vectors.row(row))),
                |link| bytes += log_bytes(self.vectors.row_bytes(), link),
                || self.checkpoint(&mut progress.linked.lock().expect("not poisoned")),
            )?;
            spent += begun.elapsed();
            rows += until - first;
            let before = progress.done.fetch_add(until - first, Ordering::Relaxed);
            let done = before + until - first;
            if self.dirty_rows.is_some_and(|n| done / n > before / n) {
                self.checkpoint(&mut progress.linked.lock().expect("not poisoned"))?;
            }
        }
        let mut linked = progress.linked.lock().expect("not poisoned");
        linked.rows += rows;
        linked.log_bytes += bytes;
        linked.insert_s += spent.as_secs_f64();
        Ok(())
    }

    /// Sleeps until `row` is due.
    #[expect(clippy::disallowed_methods, reason = "a load at a rate waits for the clock only")]
    fn await_turn(&self, row: usize, started: Instant) {
        let Some(rate) = self.rate else { return };
        let due = Duration::from_secs_f64((row - self.rows.start) as f64 / rate);
        if let Some(left) = due.checked_sub(started.elapsed()) {
            std::thread::sleep(left);
        }
    }

    /// Writes a checkpoint and notes it.
    ///
    /// # Errors
    /// As the index says.
    pub(crate) fn checkpoint(&self, linked: &mut Linked) -> Result<()> {
        linked.pending_bytes = linked.pending_bytes.max(self.index.pending_bytes());
        let begun = Instant::now();
        let report = self.index.checkpoint(self.index.applied() + 1)?;
        linked.checkpoints.push((report, begun.elapsed().as_secs_f64()));
        Ok(())
    }
}

impl Linked {
    /// Seconds of all checkpoints.
    pub(crate) fn checkpoint_s(&self) -> f64 {
        self.checkpoints.iter().map(|(_, seconds)| seconds).sum()
    }

    /// Bytes that all checkpoints have written.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.checkpoints.iter().map(|(report, _)| report.bytes_written).sum()
    }
}
