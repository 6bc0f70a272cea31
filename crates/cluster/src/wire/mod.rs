//! Frames and messages: bytes and back.
//!
//! A frame is a header of [`FRAME_HEADER`] bytes and a body; `docs/wire.md` has the byte tables. A
//! decoded [`Message`] borrows from the bytes that it came in, so decoding allocates nothing; its
//! lists are read where they lie. Whatever a field claims is held against the bytes that are there
//! before it is believed, and a body must be used up to its last byte.
//!
//! Deliberately absent: sockets, clocks, threads, and any idea of what states and parameters hold.

mod decode;
mod decode_error;
mod encode;
mod frame;
mod hello;
mod ids;
mod kind;
mod lists;
mod message;
mod score;

pub use decode_error::DecodeError;
pub use frame::{FRAME_HEADER, FRAME_MAX, FrameError, HELLO_MAX, VERSION, frame_len, read};
pub use hello::{Hello, Mismatch};
pub use ids::{PeerId, QueryId};
pub use kind::Kind;
pub use lists::{Hit, Hits, Numbers, TRACE_MAX};
pub use message::{Answer, Begin, Failure, FailureCode, Goodbye, Leave, Message, Mode, State};
pub use score::{NEIGHBOURS_MAX, NODES_MAX, Neighbours, READS_MAX, Read, Reads, Score, Scored};

#[cfg(test)]
mod tests;
