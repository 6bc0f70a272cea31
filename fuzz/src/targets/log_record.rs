//! Payloads of the write-ahead log: the first byte chooses the kind of record.

use pipeann_db::wal::{Record, RecordKind};

use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &["put", "delete", "upsert", "link"];

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let Some((kind, payload)) = data.split_first() else { return };
    let Some(kind) = RecordKind::from_number(u16::from(*kind)) else { return };
    let Ok(record) = bounded(payload.len(), || Record::decode(kind, payload)) else { return };
    assert_eq!(record.kind(), kind);
    assert_eq!(record.encode().expect("it was a payload"), payload);
    match record {
        Record::Put(rows) => reached.mark("put", !rows.is_empty()),
        Record::Delete(rows) => reached.mark("delete", !rows.is_empty()),
        Record::Upsert { deleted, rows } => {
            reached.mark("upsert", !deleted.is_empty() && !rows.is_empty());
        }
        Record::Link(links) => reached.mark("link", !links.is_empty()),
    }
}
