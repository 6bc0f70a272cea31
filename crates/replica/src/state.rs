//! What a server does now, and how far it has come: told by the one thread that works, asked by reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeann_store::Position;

use crate::time::{ChangeSignal, ServerTime};

/// How new the data has to be that a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFreshness {
    /// All that was acknowledged before the read.
    Latest,
    /// All that was acknowledged up to a hybrid timestamp.
    AtLeast(u64),
    /// All but what was acknowledged in the last time before the read, and all up to a timestamp.
    Bounded {
        /// How far behind it may be.
        staleness: Duration,
        /// What it has in any case; 0 for nothing.
        at_least: u64,
    },
    /// Whatever is there.
    Any,
}

/// What a server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Whether it leads, and by which term.
    pub leads: Option<u64>,
    /// The last object of the log that it has applied.
    pub position: Option<Position>,
    /// The timestamp of it.
    pub timestamp: u64,
    /// What keeps it from going on, if anything does.
    pub trouble: Option<String>,
    /// The log does not go on from what it has: it has to be opened anew, with a generation.
    pub cut_off: bool,
}

#[derive(Debug)]
struct ReadProgress {
    status: ReplicaStatus,
    /// The greatest position that was applied, also where some is read once more since.
    furthest: Option<Position>,
    /// Reads to the log's end that were asked for, and those that have ended: one that begins when the
    /// first is `n` has the second be `n` when it ends.
    asked: u64,
    ended: u64,
    /// How often this server has come to lead.
    led: u64,
    /// When the last read that came to the end began, as a [moment](ServerTime::moment).
    fresh: Option<Duration>,
    /// How far the leader said that the log goes, and when it was asked, where that is not here yet.
    heard: Option<(Position, Duration)>,
    /// Why nothing is read any more.
    died: Option<String>,
    stopping: bool,
    /// Something happened that the working thread should look at.
    nudged: bool,
}

impl ReadProgress {
    /// Whether what a read asks for is applied for certain.
    fn has(&self, wanted: ReadFreshness, time: &ServerTime) -> bool {
        match wanted {
            ReadFreshness::Any => true,
            ReadFreshness::AtLeast(timestamp) => self.status.timestamp >= timestamp,
            ReadFreshness::Bounded { staleness, at_least } => {
                self.status.timestamp >= at_least
                    && self.fresh.is_some_and(|fresh| time.age(fresh) <= staleness)
            }
            ReadFreshness::Latest => false,
        }
    }

    /// What is here was all there was when the leader was asked.
    fn compare_with_heard(&mut self) {
        if let Some((heard, asked)) = self.heard
            && self.status.position.is_some_and(|position| position >= heard)
        {
            self.fresh = self.fresh.max(Some(asked));
            self.heard = None;
        }
    }
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct SharedState {
    progress: Mutex<ReadProgress>,
    moved: ChangeSignal,
    time: ServerTime,
    /// Bytes of the log that were put or applied here since it was opened.
    log_bytes: AtomicU64,
    /// The timestamp of the last object that this server has put.
    put: AtomicU64,
}

/// What the thread that works finds when it has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkSignal {
    /// Time is over, or somebody wants it to look.
    Look,
    /// The server ends.
    Stop,
}

/// How a wait for what a read asks for has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaughtUp {
    /// It is applied.
    Applied,
    /// This server has come to lead. By now another one may.
    Leads,
}

impl SharedState {
    pub(crate) fn new(position: Option<Position>, time: ServerTime) -> Self {
        let status =
            ReplicaStatus { leads: None, position, timestamp: 0, trouble: None, cut_off: false };
        let progress = ReadProgress {
            furthest: status.position,
            status,
            asked: 0,
            ended: 0,
            led: 0,
            fresh: None,
            heard: None,
            died: None,
            stopping: false,
            nudged: false,
        };
        let (progress, moved) = (Mutex::new(progress), ChangeSignal::new(time.clone()));
        Self { progress, moved, time, log_bytes: AtomicU64::new(0), put: AtomicU64::new(0) }
    }

    /// The log has become longer by what was put or applied here.
    pub(crate) fn note_log_bytes(&self, bytes: u64) {
        self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// An object was put here.
    pub(crate) fn note_put(&self, timestamp: u64) {
        self.put.fetch_max(timestamp, Ordering::SeqCst);
    }

    /// The timestamp of the last object that was put or applied here: names all that was answered here.
    pub(crate) fn newest(&self) -> u64 {
        self.put.load(Ordering::SeqCst).max(self.progress().status.timestamp)
    }

    /// Bytes of the log that were put or applied here so far.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// It cannot go on without a generation.
    pub(crate) fn cut_off(&self) {
        self.progress().status.cut_off = true;
        self.moved.tell();
    }

    fn progress(&self) -> MutexGuard<'_, ReadProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has changed, at most so long.
    fn wait_more<'g>(
        &'g self,
        progress: MutexGuard<'g, ReadProgress>,
        at_most: Duration,
    ) -> MutexGuard<'g, ReadProgress> {
        self.moved.wait(&self.progress, progress, Some(at_most))
    }

    pub(crate) fn status(&self) -> ReplicaStatus {
        self.progress().status.clone()
    }

    /// Has the working thread look at once.
    pub(crate) fn nudge(&self) {
        self.progress().nudged = true;
        self.moved.tell();
    }

    pub(crate) fn stop(&self) {
        self.progress().stopping = true;
        self.moved.tell();
    }

    /// How long ago a read began that came to the log's end: what was acknowledged before that is here.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.progress().fresh.map(|fresh| self.time.age(fresh))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.progress().stopping
    }

    /// Waits until it is time to look at the log, or somebody asks for it.
    pub(crate) fn wait(&self, poll: Duration) -> WorkSignal {
        let until = self.time.now() + poll;
        let mut progress = self.progress();
        loop {
            if progress.stopping {
                return WorkSignal::Stop;
            }
            let left = self.time.until(until);
            // Who leads reads nothing.
            let is_asked = progress.asked > progress.ended && progress.status.leads.is_none();
            if progress.nudged || is_asked || left.is_zero() {
                progress.nudged = false;
                return WorkSignal::Look;
            }
            progress = self.wait_more(progress, left);
        }
    }

    /// As [`wait`](Self::wait), whoever asks: something is wrong, and is tried again after a while.
    pub(crate) fn rest(&self, time: Duration) -> WorkSignal {
        let until = self.time.now() + time;
        let mut progress = self.progress();
        while !progress.stopping {
            let left = self.time.until(until);
            if left.is_zero() {
                return WorkSignal::Look;
            }
            progress = self.wait_more(progress, left);
        }
        WorkSignal::Stop
    }

    /// Waits until something has changed, at most so long.
    pub(crate) fn wait_for_change(&self, time: Duration) {
        drop(self.wait_more(self.progress(), time));
    }

    /// A read to the log's end begins; to be given to [`end_read`](Self::end_read).
    pub(crate) fn begin_read(&self) -> (u64, Duration) {
        (self.progress().asked, self.time.moment())
    }

    /// A read has come to the end of the log.
    pub(crate) fn end_read(&self, (asked, began): (u64, Duration)) {
        let mut progress = self.progress();
        progress.ended = progress.ended.max(asked);
        progress.fresh = Some(began);
        progress.status.trouble = None;
        drop(progress);
        self.moved.tell();
    }

    /// A batch was applied.
    pub(crate) fn applied(&self, position: Position, timestamp: u64) {
        let mut progress = self.progress();
        progress.status.position = Some(position);
        progress.furthest = progress.furthest.max(Some(position));
        progress.status.timestamp = progress.status.timestamp.max(timestamp);
        progress.compare_with_heard();
        drop(progress);
        self.moved.tell();
    }

    /// Whether the object at a position was applied here before.
    pub(crate) fn has_applied(&self, position: Position) -> bool {
        self.progress().furthest >= Some(position)
    }

    /// What is here does not go as far as was said.
    pub(crate) fn forget_position(&self) {
        let mut progress = self.progress();
        (progress.status.position, progress.status.timestamp) = (None, 0);
    }

    /// The leader said how far the log goes.
    pub(crate) fn heard(&self, position: Position, asked: Duration) {
        let mut progress = self.progress();
        progress.heard = Some((position, asked));
        progress.compare_with_heard();
        progress.nudged |= progress.heard.is_some();
        drop(progress);
        self.moved.tell();
    }

    /// Nothing is read any more; an earlier reason stays.
    pub(crate) fn die(&self, why: String) {
        let mut progress = self.progress();
        let why = progress.died.get_or_insert(why).clone();
        (progress.status.leads, progress.status.trouble) = (None, Some(why));
        drop(progress);
        self.moved.tell();
    }

    pub(crate) fn has_died(&self) -> bool {
        self.progress().died.is_some()
    }

    /// It leads by a term from now on, or no more.
    pub(crate) fn leads(&self, term: Option<u64>) {
        let mut progress = self.progress();
        progress.status.leads = term;
        if term.is_some() {
            progress.led += 1;
            progress.ended = progress.asked;
            progress.status.trouble = None;
        }
        drop(progress);
        self.moved.tell();
    }

    pub(crate) fn trouble(&self, why: String) {
        let mut progress = self.progress();
        if progress.status.trouble.as_ref() != Some(&why) {
            tracing::warn!("the shared log: {why}");
        }
        progress.status.trouble = Some(why);
        drop(progress);
        self.moved.tell();
    }

    pub(crate) fn has(&self, wanted: ReadFreshness) -> bool {
        self.progress().has(wanted, &self.time)
    }

    /// Waits until what a read asks for is applied, or this server leads.
    ///
    /// # Errors
    /// What is in the way, when the deadline has come.
    pub(crate) fn catch_up(
        &self,
        wanted: ReadFreshness,
        deadline: Instant,
    ) -> Result<CaughtUp, String> {
        let mut progress = self.progress();
        if let Some(why) = &progress.died {
            return Err(why.clone());
        }
        if progress.has(wanted, &self.time) {
            return Ok(CaughtUp::Applied);
        }
        progress.asked += 1;
        let (mine, led) = (progress.asked, progress.led);
        self.moved.tell();
        while progress.ended < mine && progress.status.leads.is_none() {
            // What it asks for may come before the log's end.
            if progress.has(wanted, &self.time) {
                return Ok(CaughtUp::Applied);
            }
            let left = self.time.until(deadline);
            if left.is_zero() || progress.stopping || progress.died.is_some() {
                let why = progress.status.trouble.clone();
                return Err(why.unwrap_or_else(|| "the log is longer than was read so far".into()));
            }
            progress = self.wait_more(progress, left);
        }
        // Reads that were asked for end as a server comes to lead.
        let leads = progress.led != led || progress.status.leads.is_some();
        Ok(if leads { CaughtUp::Leads } else { CaughtUp::Applied })
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
