//! The write-ahead log of one collection: numbered records, group commit, replay.
//!
//! A log is a directory of segment files. Each record is a frame with its sequence number, its
//! kind, checksums that cover the collection's uuid, and the checksum of the record before, so
//! that a frame is valid in one place of one log only. Payloads are opaque here, but for their
//! kind; [`Record`] says what they hold.
//!
//! Promises and rules:
//! - What was answered at level [`Level::Sync`] or [`Level::Group`] survives a kill and a power
//!   cut; at [`Level::None`] it survives a kill only.
//! - A record is there whole or not at all, and its successors only if it is.
//! - A segment is appended to by the opening that created it only, never again; nothing is
//!   overwritten or cut off in place. A segment ends where the next one's first record begins,
//!   and whatever stands behind that is the rest of a crash, and ignored.
//! - After a sync, a *mark* tells that all records before it are on stable storage. A bad frame
//!   that a later mark vouches for is damage, and refused; one that none vouches for is a torn
//!   tail, and is left behind by starting a new segment. Bytes of a payload are no mark, whatever
//!   they are.
//! - A record gets its number only when the disk has kept room for it: on a full disk it is refused
//!   before anything has happened, and the log goes on when there is room.
//! - After a failed write or sync the log is poisoned until it is opened again. Opening writes
//!   what no mark vouches for anew, because a failed sync may have lost what can still be read.
//! - At most one process appends; the caller holds the directory's lock.
//! - Where servers share a log, a record is there before it is written here, and is answered then:
//!   that log is the stable storage, and this one what a start of the server is spared reading.
//!
//! No clock but the bounded delay of `Group`, and no thread of its own.

pub mod constants;
mod end;
mod error;
mod frame;
mod log;
mod log_id;
mod log_record;
mod newest;
mod opening;
mod options;
mod queue;
pub mod record;
mod recovery;
mod replay;
mod salt;
mod scan;
mod segment;
mod shared;
mod shared_records;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use end::{LogEnd, find_end, segment_names};
pub use error::{CommitFailure, FrameProblem, WalError};
pub use log::{Log, PendingCommit, Truncated};
pub use log_id::LogId;
pub use log_record::LogRecord;
pub use options::{Level, LogOptions};
pub use record::{Link, PayloadTooLarge, PutRow, Record, RecordError, RecordKind};
pub use recovery::{Recovery, TornTail};
pub use replay::Replay;
pub use shared_records::AnswersAfterSync;
pub use verify::{Verified, verify};
