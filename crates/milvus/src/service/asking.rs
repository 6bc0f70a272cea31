//! Clients that wait for a call that may take long: how long, for how large an answer, and their
//! turns at the processor.
//!
//! A read has the processor for a moment without asking. One that takes longer goes on in turns with
//! others of its kind, of which few run at once and all of them get on; so calls that take little are
//! not held up by those that take much. Whoever waits for a turn holds a thread and no lock.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeann_db::asker::{Asker, Gone, TooMuch};
use tonic::codegen::http::HeaderMap;
use tonic::metadata::MetadataMap;

use super::messages::{CallMemory, locked};
use super::serve_options::MAX_ANSWER_BYTES;

/// The header that says how long a client waits.
pub(super) const TIMEOUT: &str = "grpc-timeout";
/// How long a call has the processor without a turn.
const FREE: Duration = Duration::from_millis(10);
/// How long a turn is.
const TURN: Duration = Duration::from_millis(10);
/// How often whoever waits for a turn looks whether its client is still there.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Work between two looks that is much.
const MUCH: Duration = Duration::from_millis(5);
/// Calls that wait for a turn; more are refused.
pub(super) const MOST_WAITING: usize = 64;
/// An answer is held twice while it is turned into a message.
const COPIES: u64 = 2;

/// The turns of reads that take long.
#[derive(Debug)]
pub(super) struct Turns {
    at_once: usize,
    state: Mutex<TurnsState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TurnsState {
    running: usize,
    /// By the turns that each had, so that those who take little wait for few; then by age.
    waiting: BTreeSet<(u64, u64)>,
    next: u64,
}

impl Turns {
    /// Half of the processors, so that the others are everybody's.
    pub(super) fn new() -> Arc<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::of((cpus / 2).max(1))
    }

    fn of(at_once: usize) -> Arc<Self> {
        Arc::new(Self { at_once, state: Mutex::default(), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, TurnsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// [`Gone`] where there is none: too many wait, or `gone` says that nobody does.
    fn begin(&self, had: u64, gone: impl Fn() -> bool) -> Result<(), Gone> {
        let mut state = self.state();
        if state.waiting.len() >= MOST_WAITING {
            return Err(Gone::Crowded);
        }
        let ticket = (had, state.next);
        state.next += 1;
        state.waiting.insert(ticket);
        while state.running >= self.at_once || state.waiting.first() != Some(&ticket) {
            let waited = self.changed.wait_timeout(state, BETWEEN_LOOKS);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if gone() {
                state.waiting.remove(&ticket);
                self.changed.notify_all();
                return Err(Gone::Left);
            }
        }
        state.waiting.remove(&ticket);
        state.running += 1;
        self.changed.notify_all();
        Ok(())
    }

    fn end(&self) {
        self.state().running -= 1;
        self.changed.notify_all();
    }

    fn is_wanted(&self) -> bool {
        !self.state().waiting.is_empty()
    }
}

/// One client that waits.
pub(super) struct WaitingClient {
    deadline: Option<Instant>,
    left: AtomicBool,
    crowded: AtomicBool,
    /// Where its call takes turns with others.
    turns: Option<Arc<Turns>>,
    turn: Mutex<ReadTurn>,
    held: Option<CallMemory>,
    answer_bytes: AtomicU64,
    /// As many as they have been at once, for which there is memory.
    most_bytes: AtomicU64,
}

struct ReadTurn {
    since: Instant,
    looked: Instant,
    has: bool,
    /// Turns so far.
    had: u64,
    /// Whether it has come to work: until then it waited for a thread.
    works: bool,
}

impl WaitingClient {
    pub(super) fn new(
        metadata: &MetadataMap,
        held: Option<CallMemory>,
        turns: Option<Arc<Turns>>,
    ) -> Arc<Self> {
        let now = Instant::now();
        let deadline = timeout_in(metadata.as_ref()).and_then(|left| now.checked_add(left));
        Arc::new(Self {
            deadline,
            left: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            turns,
            turn: Mutex::new(ReadTurn {
                since: now,
                looked: now,
                has: false,
                had: 0,
                works: false,
            }),
            held,
            answer_bytes: AtomicU64::new(0),
            most_bytes: AtomicU64::new(0),
        })
    }

    /// When its answer is of no use any more.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn turn(&self) -> MutexGuard<'_, ReadTurn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that a client has gone, when the network lets go of its call.
pub(super) struct Stays(pub(super) Arc<WaitingClient>);

impl Drop for Stays {
    fn drop(&mut self) {
        self.0.left.store(true, Ordering::Relaxed);
    }
}

impl Asker for WaitingClient {
    fn gone(&self) -> Option<Gone> {
        if self.left.load(Ordering::Relaxed) {
            return Some(Gone::Left);
        }
        if self.crowded.load(Ordering::Relaxed) {
            return Some(Gone::Crowded);
        }
        self.deadline.is_some_and(|deadline| deadline <= Instant::now()).then_some(Gone::Late)
    }

    fn pause(&self) {
        let mut turn = self.turn();
        turn.looked = Instant::now();
        let Some(turns) = &self.turns else { return };
        if !turn.works {
            (turn.works, turn.since) = (true, turn.looked);
        }
        if turn.looked - turn.since < if turn.has { TURN } else { FREE } {
            return;
        }
        if turn.has && turns.is_wanted() {
            turns.end();
            turn.has = false;
        }
        if !turn.has {
            match turns.begin(turn.had, || self.gone().is_some()) {
                Ok(()) => (turn.has, turn.had) = (true, turn.had + 1),
                Err(Gone::Crowded) => self.crowded.store(true, Ordering::Relaxed),
                Err(_) => {}
            }
        }
        turn.since = Instant::now();
        turn.looked = turn.since;
    }

    fn is_due(&self) -> bool {
        self.turn().looked.elapsed() > MUCH
    }

    fn grows(&self, bytes: u64) -> Result<(), TooMuch> {
        let all = self.answer_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if all > MAX_ANSWER_BYTES as u64 {
            return Err(TooMuch::Answer { most_bytes: MAX_ANSWER_BYTES as u64 });
        }
        let more = all.saturating_sub(self.most_bytes.fetch_max(all, Ordering::Relaxed));
        let Some(held) = self.held.as_ref().filter(|_| more > 0) else { return Ok(()) };
        Ok(locked(&held.answer).grow(COPIES * more)?)
    }

    fn shrinks(&self, bytes: u64) {
        // Its memory stays for what comes next.
        self.answer_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for WaitingClient {
    fn drop(&mut self) {
        let has = self.turn().has;
        if let Some(turns) = self.turns.as_ref().filter(|_| has) {
            turns.end();
        }
    }
}

/// How long a client waits, where it says so.
pub(super) fn timeout_in(headers: &HeaderMap) -> Option<Duration> {
    timeout_of(headers.get(TIMEOUT)?.to_str().ok()?)
}

/// How long somebody waits, as gRPC writes it: whole milliseconds, so that it is never longer.
pub(super) fn timeout_text(left: Duration) -> String {
    let ms = left.as_millis();
    if ms < 100_000_000 { format!("{ms}m") } else { format!("{}S", left.as_secs().min(99_999_999)) }
}

/// How long a client waits, as gRPC writes it: at most eight digits and a unit.
fn timeout_of(text: &str) -> Option<Duration> {
    let (at, unit) = text.char_indices().next_back()?;
    let digits = &text[..at];
    let is_number = (1..=8).contains(&at) && digits.bytes().all(|digit| digit.is_ascii_digit());
    let amount: u64 = is_number.then(|| digits.parse().ok()).flatten()?;
    Some(match unit {
        'H' => Duration::from_secs(3600 * amount),
        'M' => Duration::from_secs(60 * amount),
        'S' => Duration::from_secs(amount),
        'm' => Duration::from_millis(amount),
        'u' => Duration::from_micros(amount),
        'n' => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "asking_tests.rs"]
mod tests;
