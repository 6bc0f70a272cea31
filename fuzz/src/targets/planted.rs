//! Decoders that are broken on purpose, to prove that the fuzzer and the bound find such faults.
//!
//! Neither fault lies in what its seeds do: the seeds are those of the log's records.

use pipeann_db::wal::{Record, RecordKind};

use crate::counting::bounded;
use crate::{FuzzTarget, ReachedSections};

/// Partitions that the table of the overflow has room for.
const ROOM: usize = 4;

/// An index that is out of bounds: a table of partitions that is believed to be large enough, looked
/// at for keys in the second half of the alphabet only.
pub(super) const OVERFLOW: FuzzTarget =
    FuzzTarget { name: "planted-overflow", sections: &[], planted: true, run: overflow };

/// A count that is believed: room is made for as many rows as a record says it has.
pub(super) const ALLOCATION: FuzzTarget =
    FuzzTarget { name: "planted-allocation", sections: &[], planted: true, run: allocation };

fn overflow(data: &[u8], _: &mut ReachedSections) {
    let Some((kind, payload)) = data.split_first() else { return };
    let Some(kind) = RecordKind::from_number(u16::from(*kind)) else { return };
    let Ok(Record::Put(rows)) = Record::decode(kind, payload) else { return };
    let mut table = [0_usize; ROOM];
    for row in rows {
        if row.key.first().is_some_and(|first| *first > b'm') {
            table[row.partition as usize] += 1;
        }
    }
    std::hint::black_box(table);
}

fn allocation(data: &[u8], _: &mut ReachedSections) {
    let Some((count, _)) = data.get(1..).and_then(|data| data.split_first_chunk::<4>()) else {
        return;
    };
    // At most 2 GiB, so that it is the bound that says no and not the system.
    let count = u32::from_le_bytes(*count) as usize & 0xFFF_FFFF;
    bounded(data.len(), || std::hint::black_box(Vec::<u64>::with_capacity(count)));
}
