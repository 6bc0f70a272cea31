//! The log of a shard: batches of records, one object each, in a store that alone decides who writes.
//!
//! Names are dense numbers and every object is put where there is none, so of two writers one finds
//! the next name taken. That is the whole fence; no clock is part of it.
//!
//! Invariants:
//! - Object `n + 1` is put after `n` is known to be there, so objects have no holes but what was cut.
//! - Each object holds the checksum of the one before it, and the term that wrote it. A term begins
//!   with an opening, whose term is above all before it; records have the term of the last opening.
//! - An opening is never deleted. So whoever led before finds the name of its next object taken for
//!   good, also after the log was cut above it.
//! - A cut is noted before anything is deleted. What stands below the newest cut is no part of the log:
//!   a candidate that was slow may have put an opening there, and looks at the cut before it serves.
//! - An acknowledged append is in the log for good; one that failed may be in it or not, and its leader
//!   writes no more.
//!
//! Deliberately absent: what records mean, when to cut, who should lead, waiting for more.

mod cut;
mod error;
mod format;
mod leader;
mod names;
mod opening;
#[cfg(test)]
mod planted;
mod position;
mod put;
mod reader;
mod shard;

pub use error::{BoxError, LogError};
pub use format::{
    Batch, ENTRIES_MAX, EncodedEntries, Entry, EntryRef, LEADER_MAX, LeaderName, OBJECT_MAX, Stamp,
    VERSION, read_object,
};
pub use leader::TermLeader;
pub use opening::{Opening, OpeningStep};
#[cfg(test)]
pub(crate) use planted::Planted;
pub use position::{Position, ShardId};
pub use reader::Reader;
pub use shard::{ShardLog, shards};

#[cfg(test)]
mod tests;
