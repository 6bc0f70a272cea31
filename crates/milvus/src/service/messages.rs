//! Memory of requests that are read and of answers that are built: counted while they grow, and
//! bounded over all calls.
//!
//! A request counts from its first bytes until it is answered, an answer until the client has taken it.
//! What there is no room for is refused at once, and a request that comes too slowly is given up, so
//! that nobody holds much for long by sending little. Answers on their way: [`leaving`](super::leaving).

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use pipeann_engine::memory::{Accountant, OverLimit, Pool, Reservation, physical_bytes};
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;

use super::connections::BusyConnection;
use super::network_limits::LEAST_BYTES_PER_S;

/// All messages may have such a part of the memory limit, or of the machine's memory without one.
const LIMIT_OVER_MESSAGES: u64 = 2;
const MACHINE_OVER_MESSAGES: u64 = 4;
/// As much as one message needs in any case.
const LEAST_BYTES: u64 = 96 << 20;
/// Bytes of a message that are granted at once.
const STEP_BYTES: u64 = 256 << 10;
/// Messages that were as large leave memory behind that is worth returning.
const LARGE_BYTES: u64 = 8 << 20;

/// What all messages share.
#[derive(Debug)]
pub(super) struct Messages {
    accountant: Arc<Accountant>,
    held: AtomicU64,
    /// A large one has gone.
    left_much: AtomicBool,
}

impl Messages {
    pub(super) fn new(accountant: &Arc<Accountant>) -> Arc<Self> {
        let (accountant, left_much) = (Arc::clone(accountant), AtomicBool::new(false));
        Arc::new(Self { accountant, held: AtomicU64::new(0), left_much })
    }

    fn most(&self) -> u64 {
        let share = match self.accountant.limit_bytes() {
            Some(limit) => limit / LIMIT_OVER_MESSAGES,
            None => physical_bytes() / MACHINE_OVER_MESSAGES,
        };
        share.max(LEAST_BYTES)
    }

    /// Bytes of all messages.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether large messages have gone since this was asked last.
    pub(super) fn take_left_much(&self) -> bool {
        self.left_much.swap(false, Ordering::Relaxed)
    }
}

/// The memory of one message.
#[derive(Debug)]
pub(super) struct Share {
    messages: Arc<Messages>,
    used: u64,
    granted: u64,
    reservations: Vec<Reservation>,
}

impl Share {
    pub(super) fn new(messages: &Arc<Messages>) -> Self {
        Self { messages: Arc::clone(messages), used: 0, granted: 0, reservations: Vec::new() }
    }

    /// Counts so many bytes more.
    ///
    /// # Errors
    /// [`OverLimit`]: there is no room for them.
    pub(super) fn grow(&mut self, bytes: u64) -> Result<(), OverLimit> {
        self.used = self.used.saturating_add(bytes);
        if self.used <= self.granted {
            return Ok(());
        }
        // Small messages cost nothing but what they have.
        let ahead = if self.granted == 0 { 0 } else { STEP_BYTES };
        let more = (self.used - self.granted).max(ahead);
        let (messages, most) = (&self.messages, self.messages.most());
        let taken = messages.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(more).filter(|sum| *sum <= most)
        });
        taken.map_err(|held_bytes| OverLimit {
            pool: Pool::QueryScratch,
            asked_bytes: more,
            held_bytes,
            limit_bytes: most,
        })?;
        // Given back when the share goes.
        self.granted += more;
        self.reservations.push(messages.accountant.reserve(Pool::QueryScratch, more)?);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.messages.held.fetch_sub(self.granted, Ordering::Relaxed);
        if self.granted >= LARGE_BYTES {
            self.messages.left_much.store(true, Ordering::Relaxed);
        }
    }
}

/// Memory of one call: its request, and its answer.
#[derive(Clone, Debug)]
pub(super) struct CallMemory {
    pub(super) request: Arc<Mutex<Share>>,
    pub(super) answer: Arc<Mutex<Share>>,
}

impl CallMemory {
    pub(super) fn new(messages: &Arc<Messages>) -> Self {
        let share = || Arc::new(Mutex::new(Share::new(messages)));
        Self { request: share(), answer: share() }
    }
}

pub(super) fn locked(share: &Mutex<Share>) -> MutexGuard<'_, Share> {
    share.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts more bytes of a request.
pub(super) fn grow(share: &Mutex<Share>, bytes: u64) -> Result<(), Status> {
    locked(share).grow(bytes).map_err(|refused| {
        Status::resource_exhausted(format!(
            "rate limit exceeded: no memory for this request: {refused}"
        ))
    })
}

/// A request as it comes.
pub(super) struct Arriving {
    body: Body,
    share: Arc<Mutex<Share>>,
    /// When it has to be there, were nothing more to come.
    patience: Pin<Box<Sleep>>,
    began: Instant,
    wait: Duration,
    bytes: u64,
    /// Where it comes from; told when all of it is there.
    peer: Option<BusyConnection>,
}

impl Arriving {
    pub(super) fn new(
        body: Body,
        share: Arc<Mutex<Share>>,
        wait: Duration,
        peer: Option<BusyConnection>,
    ) -> Self {
        let began = Instant::now();
        let patience = Box::pin(tokio::time::sleep_until(began + wait));
        Self { body, share, patience, began, wait, bytes: 0, peer }
    }

    fn arrived(&mut self, frame: &Frame<Bytes>) -> Result<(), Status> {
        let Some(data) = frame.data_ref() else { return Ok(()) };
        self.bytes += data.len() as u64;
        let late = self.began + self.wait + Duration::from_secs(self.bytes / LEAST_BYTES_PER_S);
        self.patience.as_mut().reset(late);
        grow(&self.share, data.len() as u64)
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(this.arrived(&frame).map(|()| frame))),
            Poll::Ready(None) => {
                if let Some(peer) = &this.peer {
                    peer.calls();
                }
                Poll::Ready(None)
            }
            Poll::Ready(other) => Poll::Ready(other),
            Poll::Pending => match this.patience.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(Some(Err(Status::cancelled(
                    "the request came too slowly, and was given up",
                )))),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        // The end has to be seen.
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
