//! Changes of a database as records of the shared log, and back.
//!
//! A record's number is the change's own: the revision of the catalogue, the number within the
//! collection's log, 0 for users and roles. `docs/store-format.md` has the kinds.

use pipeann_db::ids::Seq;
use pipeann_db::replication::{AppliedRequest, SharedChange, SharedLogError};
use pipeann_store::EntryRef;

/// Kind of a change of the catalogue; its delta.
pub const KIND_CATALOG: u8 = 1;
/// Kind of users and roles; their file.
pub const KIND_ACCESS: u8 = 2;
/// Kind of the request that the record before it was made for; its id, and what it is answered by.
pub const KIND_REQUEST: u8 = 3;
/// Kind of a record of a collection, less the number of its kind there; the collection's id of 8 bytes,
/// and the payload.
pub const KIND_RECORD: u8 = 0x10;
/// Kinds of records that fit.
const RECORD_KINDS: u16 = 0x100 - KIND_RECORD as u16;

/// One change, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedChange {
    /// Its number.
    pub seq: u64,
    /// Its kind.
    pub kind: u8,
    /// What it holds.
    pub payload: Vec<u8>,
}

impl EncodedChange {
    /// As the log takes it.
    pub fn as_entry(&self) -> EntryRef<'_> {
        EntryRef { seq: self.seq, kind: self.kind, payload: &self.payload }
    }
}

/// A change as a record.
///
/// # Panics
/// Where a collection's kind of record is beyond those that fit.
pub fn encode(change: &SharedChange<'_>) -> EncodedChange {
    match *change {
        SharedChange::Catalog { revision, delta } => {
            EncodedChange { seq: revision, kind: KIND_CATALOG, payload: delta.to_vec() }
        }
        SharedChange::Access { file } => {
            EncodedChange { seq: 0, kind: KIND_ACCESS, payload: file.to_vec() }
        }
        SharedChange::Request(request) => {
            EncodedChange { seq: 0, kind: KIND_REQUEST, payload: request.to_bytes().to_vec() }
        }
        SharedChange::Record { collection, seq, kind, payload } => {
            assert!(kind < RECORD_KINDS, "kind {kind} of records has no number here");
            let mut bytes = Vec::with_capacity(size_of::<u64>() + payload.len());
            bytes.extend_from_slice(&collection.to_le_bytes());
            bytes.extend_from_slice(payload);
            EncodedChange { seq: seq.0, kind: KIND_RECORD + kind as u8, payload: bytes }
        }
    }
}

/// The change that a record is.
///
/// # Errors
/// [`SharedLogError::Damaged`] for a kind that is not known, and for one cut short.
pub fn decode(seq: u64, kind: u8, payload: &[u8]) -> Result<SharedChange<'_>, SharedLogError> {
    let damaged = |why: String| SharedLogError::Damaged { of: "the database".into(), why };
    match kind {
        KIND_CATALOG => Ok(SharedChange::Catalog { revision: seq, delta: payload }),
        KIND_ACCESS => Ok(SharedChange::Access { file: payload }),
        KIND_REQUEST => {
            let wrong = |_| damaged(format!("{} bytes are no request", payload.len()));
            let bytes = payload.try_into().map_err(wrong)?;
            Ok(SharedChange::Request(AppliedRequest::from_bytes(bytes)))
        }
        KIND_RECORD.. => {
            let short = || damaged(format!("{} bytes are no record", payload.len()));
            let (collection, payload) = payload.split_first_chunk().ok_or_else(short)?;
            let collection = u64::from_le_bytes(*collection);
            let kind = u16::from(kind - KIND_RECORD);
            Ok(SharedChange::Record { collection, seq: Seq(seq), kind, payload })
        }
        _ => Err(damaged(format!("kind {kind} is not known here; upgrade this server"))),
    }
}

#[cfg(test)]
mod tests {
    use pipeann_db::replication::requests::{RequestAnswer, RequestId};

    use super::*;

    #[test]
    fn changes_come_back_and_others_are_refused() {
        let changes = [
            SharedChange::Catalog { revision: 7, delta: b"{}" },
            SharedChange::Access { file: b"users" },
            SharedChange::Record { collection: u64::MAX, seq: Seq(9), kind: 2, payload: b"" },
            SharedChange::Record { collection: 3, seq: Seq(1), kind: 4, payload: b"rows" },
            SharedChange::Request(AppliedRequest {
                id: RequestId([7; 16]),
                at_ms: 1,
                answer: RequestAnswer { first_row: 2, rows: 3, removed: 4 },
            }),
        ];
        for change in &changes {
            let EncodedChange { seq, kind, payload } = encode(change);
            assert_eq!(decode(seq, kind, &payload).unwrap(), *change);
        }
        for (kind, payload) in [
            (0, &b"12345678"[..]),
            (4, b"12345678"),
            (KIND_REQUEST, b"12345678"),
            (KIND_RECORD, b"1234567"),
        ] {
            let refused = decode(1, kind, payload).unwrap_err();
            assert!(matches!(refused, SharedLogError::Damaged { .. }), "{refused}");
        }
    }
}
