//! Answers on their way to the client: they leave in pieces, count until the last of them is taken,
//! and are given up where that takes too long.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;

use super::messages::LEAST_BYTES_PER_S;

/// What is given to the connection at once of an answer. It takes the next piece when it has sent most
/// of this one; what it has taken, nobody counts.
const PIECE_BYTES: usize = 64 << 10;

/// An answer on its way, and what is held until it is taken.
pub(super) struct LeavingAnswer<T> {
    /// `None` once it was given up.
    parts: Arc<Mutex<Option<AnswerParts<T>>>>,
    /// How long it may take, were nothing of it taken.
    wait: Duration,
    is_watched: bool,
}

struct AnswerParts<T> {
    body: Body,
    /// What has come from the body, and is not given on yet.
    left: Bytes,
    given: u64,
    _held: T,
}

impl<T: Send + 'static> LeavingAnswer<T> {
    /// An answer that may take `wait`, and more by a second for each 32 KiB of it that were taken.
    pub(super) fn new(body: Body, wait: Duration, held: T) -> Self {
        let parts = AnswerParts { body, left: Bytes::new(), given: 0, _held: held };
        Self { parts: Arc::new(Mutex::new(Some(parts))), wait, is_watched: false }
    }

    /// One that is given up also where nothing of it was taken at all, however short it is.
    pub(super) fn watched(body: Body, wait: Duration, held: T) -> Self {
        let mut answer = Self::new(body, wait, held);
        answer.watch();
        answer
    }

    /// Gives the answer up when it is late. A connection whose client takes nothing asks for nothing
    /// either, so that only another task can tell.
    fn watch(&mut self) {
        self.is_watched = true;
        let (parts, wait, began) = (Arc::downgrade(&self.parts), self.wait, Instant::now());
        tokio::spawn(async move {
            let mut due = began + wait;
            loop {
                tokio::time::sleep_until(due).await;
                let Some(parts) = parts.upgrade() else { return };
                let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(given) = parts.as_ref().map(|parts| parts.given) else { return };
                due = began + wait + Duration::from_secs(given / LEAST_BYTES_PER_S);
                if due <= Instant::now() {
                    *parts = None;
                    return;
                }
            }
        });
    }
}

impl<T> AnswerParts<T> {
    fn next_piece(&mut self) -> Frame<Bytes> {
        let piece = self.left.split_to(self.left.len().min(PIECE_BYTES));
        self.given += piece.len() as u64;
        Frame::data(piece)
    }
}

impl<T: Send + 'static> HttpBody for LeavingAnswer<T> {
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
        if !parts.left.is_empty() {
            return Poll::Ready(Some(Ok(parts.next_piece())));
        }
        let frame = match Pin::new(&mut parts.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            other => return other,
        };
        match frame.into_data() {
            Ok(data) => parts.left = data,
            Err(other) => return Poll::Ready(Some(Ok(other))),
        }
        let piece = parts.next_piece();
        let is_more = !parts.left.is_empty();
        drop(locked);
        if is_more && !this.is_watched {
            this.watch();
        }
        Poll::Ready(Some(Ok(piece)))
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
        (LeavingAnswer::new(body, wait, Arc::clone(&held)), held)
    }

    fn poll<T: Send + 'static>(
        answer: &mut LeavingAnswer<T>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        Pin::new(answer).poll_frame(&mut context)
    }

    #[test]
    fn an_answer_leaves_in_pieces_and_is_held_until_the_last_is_taken() {
        let runtime = Runtime::new().unwrap();
        let _inside = runtime.enter();
        let bytes: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let (mut answer, held) = answer(&bytes, Duration::from_secs(60));
        let mut taken = Vec::new();
        assert_eq!(answer.size_hint().exact(), Some(200_000));
        while taken.len() < bytes.len() {
            assert!(!answer.is_end_stream(), "{} bytes are taken", taken.len());
            let Poll::Ready(Some(Ok(frame))) = poll(&mut answer) else {
                panic!("it ends behind {} bytes", taken.len())
            };
            let piece = frame.into_data().unwrap();
            assert!((1..=PIECE_BYTES).contains(&piece.len()), "{} bytes at once", piece.len());
            taken.extend_from_slice(&piece);
        }
        assert_eq!((taken == bytes, answer.size_hint().exact()), (true, Some(0)));
        assert!(matches!(poll(&mut answer), Poll::Ready(None)));
        assert_eq!(Arc::strong_count(&held), 2);
        drop(answer);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_short_answer_is_given_up_too_where_somebody_waits_for_its_end() {
        let runtime = Runtime::new().unwrap();
        let _inside = runtime.enter();
        let held = Arc::new(());
        let wait = Duration::from_millis(10);
        let answer = LeavingAnswer::watched(Body::empty(), wait, Arc::clone(&held));
        let began = Instant::now();
        while Arc::strong_count(&held) == 2 {
            runtime.block_on(tokio::time::sleep(Duration::from_millis(5)));
            assert!(began.elapsed() < Duration::from_secs(60), "it is held for ever");
        }
        drop(answer);
    }

    #[test]
    fn what_nobody_takes_is_held_no_longer_than_it_may_take() {
        let runtime = Runtime::new().unwrap();
        let _inside = runtime.enter();
        let began = Instant::now();
        let (mut answer, held) = answer(&[7; 400_000], Duration::from_millis(10));
        assert!(matches!(poll(&mut answer), Poll::Ready(Some(Ok(_)))));
        while Arc::strong_count(&held) == 2 {
            runtime.block_on(tokio::time::sleep(Duration::from_millis(20)));
            assert!(began.elapsed() < Duration::from_secs(60), "it is held for ever");
        }
        assert!(began.elapsed() >= Duration::from_secs(2), "what was taken gives it time");
        let Poll::Ready(Some(Err(status))) = poll(&mut answer) else { panic!("it goes on") };
        assert!(status.message().contains("too slowly"), "{status}");
    }
}
