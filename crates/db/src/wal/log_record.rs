//! A record as it stands in the log.

use super::error::WalError;
use super::record::{Record, RecordKind};
use crate::ids::Seq;

/// One record as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its number.
    pub seq: Seq,
    /// What it holds.
    pub kind: RecordKind,
    /// Its bytes.
    pub payload: Vec<u8>,
}

impl LogRecord {
    /// What the payload says.
    ///
    /// # Errors
    /// [`WalError::Record`] where it is not what the kind promises, though its checksum is right.
    pub fn decode(&self) -> Result<Record<'_>, WalError> {
        let seq = self.seq;
        Record::decode(self.kind, &self.payload).map_err(|source| WalError::Record { seq, source })
    }
}
