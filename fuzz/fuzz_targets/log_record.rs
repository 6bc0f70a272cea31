//! Payloads of the write-ahead log: the first byte chooses the kind of record.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipeann_db::wal::{Record, RecordKind};

fuzz_target!(|data: &[u8]| {
    let Some((kind, payload)) = data.split_first() else { return };
    let Some(kind) = RecordKind::from_number(u16::from(*kind)) else { return };
    if let Ok(record) = Record::decode(kind, payload) {
        assert_eq!(record.kind(), kind);
        assert_eq!(record.encode().expect("it was a payload"), payload);
    }
});
