//! Bringing components to the end of the log.
//!
//! One thread reads records, checks them and makes of them what components take; another applies
//! it, in the order of the log.

use std::sync::mpsc;
use std::thread;

use crate::collection::CollectionError;
use crate::collection::components::{Components, RecordParts};
use crate::collection::formats::Formats;
use crate::ids::Seq;
use crate::wal::{Log, LogRecord, Recovery, Replay, WalError};

/// Bytes of records that are handed over together. A group or two are in memory beside the one that
/// is applied.
const GROUP_BYTES: usize = 256 << 10;

/// Applies what components lack, and returns the bytes of the records for that.
pub(in crate::collection) fn replay(
    log: &Log,
    recovery: &Recovery,
    components: &Components,
    formats: &Formats,
) -> Result<u64, CollectionError> {
    let last = recovery.last;
    let mut from = last.next();
    let mut look = |component: &dyn Fn() -> String, applied: Seq| {
        if applied > last {
            return Err(CollectionError::AheadOfLog { component: component(), applied, last });
        }
        if applied.next() < recovery.first {
            let first = recovery.first;
            return Err(CollectionError::LogTooShort { component: component(), applied, first });
        }
        from = from.min(applied.next());
        Ok(())
    };
    for derived in components.derived() {
        look(&|| derived.shown(), derived.applied())?;
    }
    look(&|| "list of live rows".to_owned(), components.live().applied)?;
    // The log is on stable storage as a whole, unless it can only be read: then no component may
    // come to be ahead of it, and buffers have to do.
    let make_room = || {
        if let Some(full) = &recovery.read_only {
            return Err(full.clone().into());
        }
        for field in &components.fields {
            field.vectors.flush().map_err(CollectionError::vectors(&field.name))?;
        }
        components.rows.flush()?;
        components.scalars.flush(components.live().judged())?;
        Ok(())
    };
    let records = log.replay(from)?;
    thread::scope(|scope| {
        let (made, groups) = mpsc::sync_channel(1);
        scope.spawn(move || make(records, components, formats, &made));
        let mut bytes = 0;
        for made in groups.into_iter().flatten() {
            let DecodedRecord { record, parts } = made?;
            bytes += record.payload.len() as u64;
            components.replay(record.seq, &record.decode()?, &parts, &make_room)?;
        }
        Ok(bytes)
    })
}

/// A record that was read, or why there is none.
type ReplayedRecord = Result<DecodedRecord, CollectionError>;

/// Makes records ready for being applied, and hands them over in groups, until one fails, all are
/// done, or nobody takes them.
fn make(
    records: Replay,
    components: &Components,
    formats: &Formats,
    groups: &mpsc::SyncSender<Vec<ReplayedRecord>>,
) {
    let (mut group, mut bytes) = (Vec::new(), 0);
    for record in records {
        let made = DecodedRecord::new(record, components, formats);
        bytes += made.as_ref().map_or(GROUP_BYTES, |made| made.record.payload.len());
        group.push(made);
        if bytes >= GROUP_BYTES {
            bytes = 0;
            let full = std::mem::take(&mut group);
            let failed = matches!(full.last(), Some(Err(_)));
            if groups.send(full).is_err() || failed {
                return;
            }
        }
    }
    // Nobody takes it where applying has failed.
    let _ = groups.send(group);
}

/// A record that was read, with what components take of it.
struct DecodedRecord {
    record: LogRecord,
    parts: RecordParts,
}

impl DecodedRecord {
    fn new(
        record: Result<LogRecord, WalError>,
        components: &Components,
        formats: &Formats,
    ) -> ReplayedRecord {
        let record = record?;
        let parts = components.parts(formats, &record.decode()?)?;
        Ok(Self { record, parts })
    }
}
