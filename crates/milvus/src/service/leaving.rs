//! Answers on their way to the client: they leave in pieces, and count until the last of them has left.
//!
//! A piece that was given to the connection waits there as long as the client gives no window. It
//! is part of the memory of the whole answer, which counts for as long. That a client takes too long is
//! seen by who looks after its connection, and ends with that; where nobody does, the answer is given up
//! here.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;

use super::connections::BusyConnection;
use super::taking::CallUnderWay;

/// What is given to the connection at once of an answer. It takes the next piece when it has sent most
/// of this one.
const PIECE_BYTES: usize = 64 << 10;
/// How often it is looked whether an answer is late, where nobody looks after its connection.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// An answer on its way, and what is held until it has left.
pub(super) struct LeavingAnswer<T> {
    /// `None` once it was given up.
    parts: Arc<Mutex<Option<AnswerParts>>>,
    held: Arc<UntilLeft<T>>,
    /// How long it may take, were nothing of it taken.
    wait: Duration,
    is_watched: bool,
}

struct AnswerParts {
    body: Body,
    /// What has come from the body, and is not given on yet.
    left: Bytes,
}

/// What the answer and each of its pieces hold.
struct UntilLeft<T> {
    call: Arc<CallUnderWay>,
    _held: T,
    _busy: Option<BusyConnection>,
}

/// A piece that the connection has.
struct LeavingPiece<T> {
    bytes: Bytes,
    held: Arc<UntilLeft<T>>,
}

impl<T> AsRef<[u8]> for LeavingPiece<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T> Drop for LeavingPiece<T> {
    fn drop(&mut self) {
        self.held.call.took(self.bytes.len());
    }
}

impl<T: Send + Sync + 'static> LeavingAnswer<T> {
    /// An answer that may take `wait`, and more by a second for each 32 KiB of it that were taken. It is given
    /// up when it is late; of a call of a `busy` connection, by closing that.
    pub(super) fn new(body: Body, wait: Duration, held: T, busy: Option<BusyConnection>) -> Self {
        let parts = AnswerParts { body, left: Bytes::new() };
        let call = busy.as_ref().map(BusyConnection::call);
        let call = call.unwrap_or_else(|| Arc::new(CallUnderWay::new()));
        Self {
            parts: Arc::new(Mutex::new(Some(parts))),
            wait,
            is_watched: busy.is_some(),
            held: Arc::new(UntilLeft { call, _held: held, _busy: busy }),
        }
    }

    /// Gives the answer up when it is late. A connection whose client takes nothing asks for nothing
    /// either, so that only another task can tell.
    fn watch(&mut self) {
        self.is_watched = true;
        let (parts, wait) = (Arc::downgrade(&self.parts), self.wait);
        let call = Arc::clone(&self.held.call);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(wait.min(BETWEEN_LOOKS)).await;
                let Some(parts) = parts.upgrade() else { return };
                if call.is_late(wait, Instant::now()) {
                    *parts.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return;
                }
            }
        });
    }

    fn piece(&self, bytes: Bytes) -> Frame<Bytes> {
        if bytes.is_empty() {
            return Frame::data(bytes);
        }
        self.held.call.gave();
        Frame::data(Bytes::from_owner(LeavingPiece { bytes, held: Arc::clone(&self.held) }))
    }
}

impl<T: Send + Sync + 'static> HttpBody for LeavingAnswer<T> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let mut locked = this.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(parts) = locked.as_mut() else {
            let late = "the answer was taken too slowly, and was given up";
            return Poll::Ready(Some(Err(Status::cancelled(late))));
        };
        if parts.left.is_empty() {
            let frame = match ready!(Pin::new(&mut parts.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => parts.left = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let bytes = parts.left.split_to(parts.left.len().min(PIECE_BYTES));
        let is_more = !parts.left.is_empty();
        drop(locked);
        if is_more && !this.is_watched {
            this.watch();
        }
        Poll::Ready(Some(Ok(this.piece(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.as_ref().is_some_and(|parts| parts.left.is_empty() && parts.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(parts) = parts.as_ref() else { return hint };
        let (body, left) = (parts.body.size_hint(), parts.left.len() as u64);
        hint.set_lower(body.lower() + left);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + left);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Runtime;

    use super::*;

    /// An answer of so many bytes, which counts as long as the second lives.
    fn answer(bytes: &[u8], wait: Duration) -> (LeavingAnswer<Arc<()>>, Arc<()>) {
        let held = Arc::new(());
        let body = Body::new(axum::body::Body::from(bytes.to_vec()));
        (LeavingAnswer::new(body, wait, Arc::clone(&held), None), held)
    }

    fn poll<T: Send + Sync + 'static>(
        answer: &mut LeavingAnswer<T>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        Pin::new(answer).poll_frame(&mut context)
    }

    #[track_caller]
    fn next<T: Send + Sync + 'static>(answer: &mut LeavingAnswer<T>) -> Bytes {
        let Poll::Ready(Some(Ok(frame))) = poll(answer) else { panic!("it ends") };
        frame.into_data().unwrap()
    }

    #[test]
    fn an_answer_leaves_in_pieces_and_is_held_until_the_last_has_left() {
        let runtime = Runtime::new().unwrap();
        let _inside = runtime.enter();
        let bytes: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let (mut answer, held) = answer(&bytes, Duration::from_secs(60));
        let mut taken = Vec::new();
        assert_eq!(answer.size_hint().exact(), Some(200_000));
        let mut last = Bytes::new();
        while taken.len() < bytes.len() {
            assert!(!answer.is_end_stream(), "{} bytes are taken", taken.len());
            last = next(&mut answer);
            assert!((1..=PIECE_BYTES).contains(&last.len()), "{} bytes at once", last.len());
            taken.extend_from_slice(&last);
        }
        assert_eq!((taken == bytes, answer.size_hint().exact()), (true, Some(0)));
        assert!(matches!(poll(&mut answer), Poll::Ready(None)));
        drop(answer);
        assert_eq!(Arc::strong_count(&held), 2, "the connection has a piece of it");
        drop(last);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn what_nobody_takes_is_given_up_and_counts_as_long_as_a_piece_of_it_is_there() {
        let runtime = Runtime::new().unwrap();
        let _inside = runtime.enter();
        let (mut answer, held) = answer(&[7; 400_000], Duration::from_millis(10));
        let first = next(&mut answer);
        // What was taken gives it time, here two seconds.
        let second = next(&mut answer);
        drop(first);
        let began = Instant::now();
        let late = loop {
            match is_given_up(&answer) {
                true => break poll(&mut answer),
                false => runtime.block_on(tokio::time::sleep(Duration::from_millis(20))),
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it is held for ever");
        };
        assert!(began.elapsed() >= Duration::from_secs(1), "what was taken gives it time");
        let Poll::Ready(Some(Err(status))) = late else { panic!("it goes on") };
        assert!(status.message().contains("too slowly"), "{status}");
        drop(answer);
        assert_eq!(Arc::strong_count(&held), 2, "a piece is part of the memory of all of it");
        drop(second);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    /// Whether it was given up.
    fn is_given_up<T>(answer: &LeavingAnswer<T>) -> bool {
        answer.parts.lock().unwrap().is_none()
    }
}
