//! Requests that are kept whole until they are answered, as the bytes that came, so that they can be
//! sent to another server, and once more where it did not take them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body as HttpBody, Frame, SizeHint};
use prost::Message as _;
use prost::bytes::{Buf, Bytes, BytesMut};
use tonic::Status;
use tonic::body::Body;

use super::hedging::ReadKind;
use super::serve_options::MAX_REQUEST_BYTES;

/// What stands before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Pieces of fewer bytes are joined, up to so many: each costs some fifty bytes beside its own, and a client
/// may send them one by one.
const SMALL_BYTES: usize = 4 << 10;
const JOINED_BYTES: usize = 64 << 10;

/// The body of a request.
pub(super) enum Arrived {
    /// All of it.
    Whole(WholeRequest),
    /// One with a larger message than is taken, of which only the beginning was read.
    TooLarge(Body),
}

/// All bytes of a request, in the pieces in which they came.
#[derive(Clone, Default)]
pub(super) struct WholeRequest {
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl WholeRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// What became of its client or of its memory, or that it has more bytes than its message.
    pub(super) async fn read(mut body: Body) -> Result<Arrived, Status> {
        let mut whole = Self::default();
        while let Some(frame) =
            std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            let Ok(piece) = frame?.into_data() else { continue };
            if piece.is_empty() {
                continue;
            }
            whole.add(piece);
            if whole.message_bytes().is_some_and(|bytes| bytes > MAX_REQUEST_BYTES) {
                return Ok(Arrived::TooLarge(Body::new(Replayed { whole, rest: Some(body) })));
            }
            if whole.bytes > PREFIX_BYTES + MAX_REQUEST_BYTES {
                return Err(Status::resource_exhausted("the request is larger than its message"));
            }
        }
        Ok(Arrived::Whole(whole))
    }

    fn add(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        let is_small = piece.len() < SMALL_BYTES;
        match self.pieces.back_mut().filter(|last| is_small && last.len() < JOINED_BYTES) {
            Some(last) => *last = joined(std::mem::take(last), &piece),
            None => self.pieces.push_back(piece),
        }
    }

    /// How long the first message says that it is.
    fn message_bytes(&self) -> Option<usize> {
        let mut prefix = [0; PREFIX_BYTES];
        let bytes = self.pieces.iter().flat_map(|piece| piece.iter().copied());
        let read = prefix.iter_mut().zip(bytes).map(|(to, from)| *to = from).count();
        let [_, length @ ..] = prefix;
        (read == PREFIX_BYTES).then(|| u32::from_be_bytes(length) as usize)
    }

    /// Its bytes.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| &piece[..])
    }

    /// A request of these bytes.
    #[cfg(test)]
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.len(), pieces: [Bytes::from(bytes)].into() }
    }

    /// As the body of a request.
    pub(super) fn body(&self) -> Body {
        Body::new(Replayed { whole: self.clone(), rest: None })
    }

    /// The guarantee timestamp of the message; 0 where there is none.
    /// All else is passed over unread.
    pub(super) fn guarantee(&self, field: GuaranteeField) -> u64 {
        let mut message = self.clone();
        if message.remaining() < PREFIX_BYTES || message.get_u8() != 0 {
            return 0;
        }
        message.advance(PREFIX_BYTES - 1);
        match field {
            GuaranteeField::OfSearch => OfSearch::decode(message).map(|found| found.timestamp),
            GuaranteeField::OfQuery => OfQuery::decode(message).map(|found| found.timestamp),
        }
        // The service says what is wrong with it.
        .unwrap_or(0)
    }
}

/// The bytes of both. The first are copied where somebody else has them, too.
fn joined(first: Bytes, second: &[u8]) -> Bytes {
    let mut both = first.try_into_mut().unwrap_or_else(|first| BytesMut::from(&first[..]));
    both.extend_from_slice(second);
    both.freeze()
}

/// Where the guarantee timestamp of a request is.
#[derive(Clone, Copy, Debug)]
pub(super) enum GuaranteeField {
    OfSearch,
    OfQuery,
}

impl GuaranteeField {
    /// That of a read, where it can have a moment.
    pub(super) fn of(kind: ReadKind) -> Option<Self> {
        match kind {
            ReadKind::Search => Some(Self::OfSearch),
            ReadKind::Query => Some(Self::OfQuery),
            ReadKind::HybridSearch => None,
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct OfSearch {
    #[prost(uint64, tag = "11")]
    timestamp: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OfQuery {
    #[prost(uint64, tag = "8")]
    timestamp: u64,
}

impl Buf for WholeRequest {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |piece| piece)
    }

    fn advance(&mut self, mut count: usize) {
        self.bytes -= count;
        while count > 0 {
            let piece = self.pieces.front_mut().expect("there are as many bytes as are counted");
            let part = count.min(piece.len());
            piece.advance(part);
            count -= part;
            self.drop_empty();
        }
        self.drop_empty();
    }
}

impl WholeRequest {
    fn drop_empty(&mut self) {
        while self.pieces.front().is_some_and(Bytes::is_empty) {
            self.pieces.pop_front();
        }
    }
}

/// The bytes of a request, and what has not been read of it.
struct Replayed {
    whole: WholeRequest,
    rest: Option<Body>,
}

impl HttpBody for Replayed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(piece) = self.whole.pieces.pop_front() {
            self.whole.bytes -= piece.len();
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.whole.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.whole.bytes as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::milvus as wire;

    fn framed(message: &impl prost::Message, piece_bytes: usize) -> WholeRequest {
        let mut bytes = vec![0];
        bytes.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
        bytes.extend(message.encode_to_vec());
        let pieces = bytes.chunks(piece_bytes).map(Bytes::copy_from_slice).collect();
        WholeRequest { pieces, bytes: bytes.len() }
    }

    #[test]
    fn the_guarantee_is_found_whatever_stands_around_it_and_however_it_came() {
        let search = wire::SearchRequest {
            collection_name: "c".into(),
            guarantee_timestamp: (1 << 60) + 7,
            nq: 3,
            ..Default::default()
        };
        let query = wire::QueryRequest {
            expr: "id > 1".into(),
            guarantee_timestamp: 12,
            ..Default::default()
        };
        for piece_bytes in [1, 3, 5, 6, 1000] {
            let whole = framed(&search, piece_bytes);
            assert_eq!(whole.guarantee(GuaranteeField::OfSearch), (1 << 60) + 7);
            let whole = framed(&query, piece_bytes);
            assert_eq!(whole.guarantee(GuaranteeField::OfQuery), 12);
            assert_eq!(whole.message_bytes(), Some(query.encoded_len()));
        }
        let none = framed(&wire::QueryRequest::default(), 7);
        assert_eq!(none.guarantee(GuaranteeField::OfQuery), 0);
    }

    #[test]
    fn a_request_that_comes_byte_by_byte_is_kept_in_few_pieces() {
        let sent: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let all = Bytes::from(sent.clone());
        for piece_bytes in [1, 7, SMALL_BYTES - 1, SMALL_BYTES, 16 << 10] {
            let mut whole = WholeRequest::default();
            for begin in (0..all.len()).step_by(piece_bytes) {
                whole.add(all.slice(begin..all.len().min(begin + piece_bytes)));
            }
            let pieces = whole.pieces.len();
            assert!(pieces <= sent.len().div_ceil(SMALL_BYTES), "{pieces} of {piece_bytes}");
            assert_eq!(
                (whole.remaining(), whole.pieces().collect::<Vec<_>>().concat()),
                (200_000, sent.clone())
            );
        }
    }

    #[test]
    fn bytes_that_are_no_message_have_no_guarantee() {
        for bytes in
            [&b""[..], b"\0\0\0", b"\x01\0\0\0\0", b"\0\0\0\0\x02\x40", b"\0\0\0\0\x01\xff"]
        {
            let pieces = [Bytes::copy_from_slice(bytes)].into();
            let whole = WholeRequest { pieces, bytes: bytes.len() };
            assert_eq!(whole.guarantee(GuaranteeField::OfQuery), 0, "{bytes:?}");
        }
    }
}
