//! The body of an answer that comes from another server, as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body as HttpBody, Frame, SizeHint};
use prost::bytes::Bytes;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::HeaderMap;

use super::channels::CallTurn;

/// The body of an answer that comes from another server.
pub(super) struct RelayedBody {
    /// Until it has ended.
    body: Option<Body>,
    _turn: CallTurn,
}

impl RelayedBody {
    /// Of a call that has its turn until the answer has ended.
    pub(super) fn new(body: Body, turn: CallTurn) -> Self {
        Self { body: Some(body), _turn: turn }
    }
}

impl HttpBody for RelayedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let Poll::Ready(frame) = Pin::new(body).poll_frame(context) else { return Poll::Pending };
        Poll::Ready(match frame {
            Some(Err(error)) => {
                self.body = None;
                // Said as every other end of a call, or the client would see a broken stream.
                let lost = Status::unavailable(format!(
                    "the server that answers was lost, and may have done what was asked: {}",
                    error.message()
                ));
                let mut trailers = HeaderMap::new();
                Some(lost.add_header(&mut trailers).map(|()| Frame::trailers(trailers)))
            }
            frame => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}
