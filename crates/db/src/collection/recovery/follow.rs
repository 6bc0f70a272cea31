//! A collection that several servers have: records of the log that they share, applied in its order,
//! and the change between leading and following.
//!
//! A record is applied at most once: those that the collection's own log has are passed over, and one
//! that does not follow them is refused. While it follows, it takes no writes of its own, deletes
//! nothing whose time is over, and tells the catalogue nothing of its graphs; it builds and links
//! graphs like any other.

use crate::catalog::UnixMs;
use crate::collection::write::commit_sequencer::SequencerAtRest;
use crate::collection::{Collection, CollectionError};
use crate::ids::{RowId, Seq};
use crate::replication::SharedLogError;
use crate::wal::{CommitFailure, Record, RecordError, RecordKind, WalError};

impl Collection {
    /// Whether another server leads, of several that have it.
    pub fn follows(&self) -> bool {
        self.log.follows()
    }

    /// The last record that is in its log and applied.
    pub fn applied(&self) -> Seq {
        self.components.live().applied
    }

    pub(in crate::collection) fn not_leading(&self) -> CollectionError {
        let why = "another server does, or none yet".to_owned();
        CollectionError::Shared(SharedLogError::NotLeading { why })
    }

    /// Applies a record of the shared log; `false` where it is included already. `written` is when the
    /// leader put it there.
    ///
    /// # Errors
    /// [`CollectionError::Shared`] where records before it are missing, or it is damaged: nothing was
    /// changed. Else the collection has stopped, and is to be opened again.
    pub(crate) fn apply_shared(
        &self,
        seq: Seq,
        kind: u16,
        payload: &[u8],
        written: UnixMs,
    ) -> Result<bool, CollectionError> {
        self.flush_if_pressed()?;
        let mut order = self.order_when_applied()?;
        if seq <= order.submitted {
            return Ok(false);
        }
        let of = || format!("collection {}", self.identity.id.0);
        let expected = order.submitted.0 + 1;
        if seq.0 != expected {
            return Err(SharedLogError::Gap { of: of(), expected, found: seq.0 }.into());
        }
        let damaged = |why: String| SharedLogError::Damaged { of: of(), why };
        let unknown = || damaged(format!("records of kind {kind} are not known here"));
        let kind = RecordKind::from_number(kind).ok_or_else(unknown)?;
        let record = Record::decode(kind, payload);
        let record = record.map_err(|error: RecordError| damaged(error.to_string()))?;
        let rows = match &record {
            Record::Put(rows) | Record::Upsert { rows, .. } => rows.as_slice(),
            Record::Delete(_) | Record::Link(_) => &[],
        };
        let ends = rows.iter().map(|put| put.row.0.saturating_add(1));
        let (first, next) = (order.next_row, ends.fold(order.next_row, u64::max));
        self.components.buffers.hold()?;
        self.log.make_room(payload.len())?;
        let entry = self.entry()?;
        self.note_age(&entry, (RowId(first), RowId(next)), written);
        let stop = |why: String| {
            self.turns.stop(&why);
            CollectionError::Stopped { why }
        };
        let ticket = self.log.submit(kind, payload).map_err(|e| stop(e.to_string()))?;
        (order.submitted, order.next_row) = (ticket.seq(), next);
        order.free_until = 0;
        let place = self.turns.place(ticket.seq());
        let seq = self.log.wait(ticket).map_err(|e| stop(e.to_string()))?;
        let make_room = || self.flush_components().map(drop);
        let formats = self.formats(&entry);
        let applied = self.components.apply(&formats, seq, &record, &make_room);
        let soon = applied.map_err(|error| stop(error.to_string()))?;
        self.note_written(payload.len() as u64, soon);
        place.done();
        self.signal.wake();
        Ok(true)
    }

    /// Why it takes nothing more until it is opened again, if so. What only the shared log refuses is no
    /// reason: it goes on when it follows.
    pub(crate) fn needs_opening(&self) -> Option<String> {
        // In this order: where the log is the reason, it has failed before anything has stopped.
        let stopped = self.turns.stopped();
        match self.log.failed() {
            Some(CommitFailure::Shared(_)) => None,
            // It may have failed at a sync, and nobody has written since.
            Some(CommitFailure::Disk(cause)) => Some(stopped.unwrap_or_else(|| cause.to_string())),
            None => stopped,
        }
    }

    /// Puts its log on stable storage.
    pub(crate) fn sync_log(&self) -> Result<(), CollectionError> {
        Ok(self.log.sync().map(drop)?)
    }

    /// From now on it takes writes. All of the shared log is applied.
    pub(crate) fn lead(&self) -> Result<(), CollectionError> {
        let _order = self.order_when_applied()?;
        self.log.begin_to_lead();
        self.signal.wake();
        Ok(())
    }

    /// From now on it takes records of the shared log, and no writes. Those under way end first; what
    /// the shared log did not certainly take is forgotten, and comes from there if it did.
    ///
    /// # Errors
    /// [`CollectionError::Log`] where the disk has failed: it is to be opened again.
    pub(crate) fn follow(&self) -> Result<(), CollectionError> {
        let mut order = self.order();
        let SequencerAtRest { applied } = self.turns.rest();
        let written = self.log.begin_to_follow()?;
        if applied < written {
            self.apply_written(applied.next())?;
        }
        self.turns.resume(written);
        order.submitted = written;
        order.free_until = 0;
        order.next_row = self.components.live().next_row.max(self.components.rows.next_row()).0;
        // Ages were noted before the log took the rows, and others may get their ids.
        self.ages.cut(RowId(order.next_row));
        Ok(())
    }

    /// Applies records that are in the log, of writers who were told that it had stopped.
    fn apply_written(&self, from: Seq) -> Result<(), CollectionError> {
        let formats = self.current_formats()?;
        let make_room = || self.flush_components().map(drop);
        for record in self.log.replay(from)? {
            let record = record?;
            let decoded: Record<'_> = record.decode().map_err(|error: WalError| error)?;
            self.components.apply(&formats, record.seq, &decoded, &make_room)?;
        }
        Ok(())
    }
}
