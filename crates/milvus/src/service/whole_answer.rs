//! Answers that are read whole before they are handed on, so that one whose server is lost in the middle
//! of it can be asked for again.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body as HttpBody, Frame};
use prost::bytes::Bytes;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::HeaderMap;

use super::serve_options::MAX_ANSWER_BYTES;

/// All of an answer.
struct WholeAnswer {
    pieces: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
}

/// Reads an answer.
///
/// # Errors
/// What became of its server.
pub(super) async fn read(mut body: Body) -> Result<Body, Status> {
    let mut whole = WholeAnswer { pieces: VecDeque::new(), trailers: None };
    let mut bytes = 0;
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame?.into_data() {
            Ok(piece) => {
                bytes += piece.len();
                if bytes > MAX_ANSWER_BYTES + MAX_ANSWER_BYTES / 8 {
                    return Err(Status::resource_exhausted("an answer is larger than any is"));
                }
                whole.pieces.push_back(piece);
            }
            Err(frame) => whole.trailers = frame.into_trailers().ok(),
        }
    }
    Ok(Body::new(whole))
}

impl HttpBody for WholeAnswer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let piece = self.pieces.pop_front().map(Frame::data);
        Poll::Ready(piece.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.trailers.is_none()
    }
}
