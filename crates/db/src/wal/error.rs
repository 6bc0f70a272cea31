//! What can go wrong with a log: which file, which offset, and what to do about it.

use std::path::PathBuf;

use super::log_id::LogId;
use super::record::{PayloadTooLarge, RecordError};
use crate::disk::DiskError;
use crate::ids::{ErrorClass, Seq};
use crate::replication::SharedLogError;

/// Why bytes are not the frame that should stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameProblem {
    /// The file ends inside the frame, or before it.
    #[error("{missing} bytes are missing at the end of the file")]
    CutOff {
        /// Bytes that the frame still needs; of a frame without a whole header, of the header.
        missing: u64,
    },
    /// The frame does not begin as frames do.
    #[error("starts with {found:#010x} instead of a frame's magic")]
    Magic {
        /// The first four bytes.
        found: u32,
    },
    /// The header is damaged, or of another collection.
    #[error("header checksum is {found:#018x}, its bytes and the uuid make {expected:#018x}")]
    HeaderChecksum {
        /// Checksum computed from the bytes.
        expected: u64,
        /// Checksum stored.
        found: u64,
    },
    /// The payload is damaged.
    #[error("payload checksum is {found:#018x}, its bytes make {expected:#018x}")]
    PayloadChecksum {
        /// Checksum computed from the bytes.
        expected: u64,
        /// Checksum stored in the header.
        found: u64,
    },
    /// The gap after the payload is not filled with zeros.
    #[error("the bytes between payload and next frame are not zero")]
    Padding,
    /// An intact frame that belongs somewhere else: records are missing, or were moved.
    #[error("an intact frame of record {}, which does not follow the record before it", found.0)]
    Misplaced {
        /// Number of the record found, or vouched for by the mark found.
        found: Seq,
    },
}

/// An error of the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalError {
    /// A file could not be read or made; the log takes writes as before.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The directory holds no segment.
    #[error("{} holds no log; its files were removed, or it was never created", dir.display())]
    NoLog {
        /// The directory.
        dir: PathBuf,
    },
    /// The newest segment is gone, and with it records that were acknowledged.
    #[error("{} is missing; restore it from a backup", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The newest segment was cut, and with it records that were acknowledged are gone.
    #[error(
        "{} was cut: it ends with record {}, and records up to {} were there when the log was \
         closed, so that {} are gone; restore the collection from a backup, or remove the file \
         NEWEST beside it to go on without them",
        path.display(), found.0, expected.0, expected.0.saturating_sub(found.0)
    )]
    Cut {
        /// The file.
        path: PathBuf,
        /// The last record that was there.
        expected: Seq,
        /// The last record that is there.
        found: Seq,
    },
    /// The directory holds segments already.
    #[error("{} holds a log already; open it instead of creating one", dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// A file that looks like a segment by its name and is none.
    #[error("{}: not a segment of a log ({what}); move it away", path.display())]
    NotASegment {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Written by a newer program.
    #[error(
        "{}: log format version {found}, but this program reads up to {supported}; upgrade it",
        path.display()
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Newest version known here.
        supported: u32,
        /// Version found.
        found: u32,
    },
    /// A record of a kind, or with a flag, that a newer program wrote.
    #[error(
        "{} at byte {offset}: record {} is of kind {kind} with flags {flags:#x}, which this \
         program does not know; upgrade it",
        path.display(), seq.0
    )]
    UnknownKind {
        /// The file.
        path: PathBuf,
        /// Where the frame begins.
        offset: u64,
        /// Number of the record.
        seq: Seq,
        /// Number of the kind.
        kind: u16,
        /// Flags of the frame.
        flags: u16,
    },
    /// A segment of another collection.
    #[error("{}: belongs to collection {found}, expected {expected}; move it away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Collection expected.
        expected: LogId,
        /// Collection found.
        found: LogId,
    },
    /// A segment's header is damaged.
    #[error("{}: the header is damaged; restore the file from a backup", path.display())]
    Header {
        /// The file.
        path: PathBuf,
    },
    /// A bad frame where an intact one has to be.
    #[error(
        "{} at byte {offset}: record {} is damaged: {problem}; restore the file from a backup",
        path.display(), expected.0
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the frame begins.
        offset: u64,
        /// Number of the record that should stand there.
        expected: Seq,
        /// What is wrong.
        problem: FrameProblem,
    },
    /// Records are missing between two segments.
    #[error(
        "{} begins with record {}, but the segments before it end before record {}; \
         restore the missing file from a backup",
        path.display(), found.0, expected.0
    )]
    Gap {
        /// The later file.
        path: PathBuf,
        /// Number of the record that should come next.
        expected: Seq,
        /// First record of the later file.
        found: Seq,
    },
    /// A segment with the right number that continues another history.
    #[error(
        "{}: does not continue the segment before it at record {}; files of different backups \
         were mixed", path.display(), first.0
    )]
    Unconnected {
        /// The later file.
        path: PathBuf,
        /// Its first record.
        first: Seq,
    },
    /// Records were asked for that have been removed, or were never here.
    #[error("the log in {} begins with record {}, but record {} is needed", dir.display(), first.0, asked.0)]
    BeforeStart {
        /// The directory.
        dir: PathBuf,
        /// First record that is there.
        first: Seq,
        /// Record asked for.
        asked: Seq,
    },
    /// Somebody has applied records that the log does not hold: its files were lost or replaced.
    #[error("the log in {} ends with record {}, but record {} was asked for", dir.display(), last.0, asked.0)]
    AfterEnd {
        /// The directory.
        dir: PathBuf,
        /// Last record that is there.
        last: Seq,
        /// Record asked for.
        asked: Seq,
    },
    /// A payload that no record can have.
    #[error(transparent)]
    TooLarge(#[from] PayloadTooLarge),
    /// The payload of an intact frame is not what its kind says.
    #[error("record {}: {source}", seq.0)]
    Record {
        /// Number of the record.
        seq: Seq,
        /// What is wrong.
        source: RecordError,
    },
    /// A write or a sync failed, now or earlier. What was not acknowledged may or may not be
    /// there after the next opening.
    #[error(
        "the log takes no more writes until it is opened again: {cause}; what was not \
         acknowledged may or may not be there afterwards"
    )]
    Poisoned {
        /// What failed.
        cause: CommitFailure,
    },
}

/// Why records could not be committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitFailure {
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log that servers share. Of what was being committed, the disk has nothing.
    #[error(transparent)]
    Shared(#[from] SharedLogError),
}

impl CommitFailure {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Disk(cause) => cause.class(),
            Self::Shared(cause) => cause.class(),
        }
    }
}

impl WalError {
    /// Whether to retry, to fix the input or the machine, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Disk(cause) => cause.class(),
            Self::Poisoned { cause } => cause.class(),
            Self::Exists { .. }
            | Self::NotASegment { .. }
            | Self::NewerVersion { .. }
            | Self::UnknownKind { .. }
            | Self::Foreign { .. }
            | Self::TooLarge(_) => ErrorClass::FixInput,
            Self::NoLog { .. }
            | Self::Missing { .. }
            | Self::Cut { .. }
            | Self::Header { .. }
            | Self::Corrupt { .. }
            | Self::Gap { .. }
            | Self::Unconnected { .. }
            | Self::BeforeStart { .. }
            | Self::AfterEnd { .. }
            | Self::Record { .. } => ErrorClass::Stop,
        }
    }
}
