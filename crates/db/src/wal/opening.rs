//! Making the log of a new collection, and opening one that was left behind.

use std::sync::Arc;

use super::error::{CommitFailure, WalError};
use super::log::Log;
use super::log_id::LogId;
use super::newest;
use super::options::LogOptions;
use super::recovery::{Recovery, Successor, TornTail, find_tail, take_over};
use super::segment::{self, Segment};
use super::writer::{Current, LogWriter};
use crate::disk::{Disk, DiskError};
use crate::ids::Seq;

impl Log {
    /// Creates the log of a new collection in `dir`, whose parent exists. Its first record gets
    /// the number `first`: 1, or for a restored collection one after the last that it includes.
    /// The empty log is durable when this returns.
    ///
    /// # Errors
    /// [`WalError::Exists`] where there is a log already, [`WalError::Disk`].
    ///
    /// # Panics
    /// Where `first` is 0, which stands before the first record.
    pub fn create(
        disk: Arc<dyn Disk>,
        dir: &str,
        id: LogId,
        first: Seq,
        options: LogOptions,
    ) -> Result<Self, WalError> {
        assert!(first.0 > 0, "records are numbered from 1");
        disk.create_dir(dir)?;
        disk.sync_dir(dir.rsplit_once('/').map_or("", |(parent, _)| parent))?;
        segment::remove_unfinished(&*disk, dir)?;
        if !segment::list(&*disk, dir, id)?.is_empty() {
            return Err(WalError::Exists { dir: disk.locate(dir) });
        }
        let segment = Segment { path: segment::path(dir, first), first, previous: 0 };
        let (file, salt) = segment::create(&*disk, dir, id, &segment, |_| Ok(()))?;
        let writer = LogWriter {
            disk,
            dir: dir.into(),
            id,
            segment_bytes: options.segment_bytes,
            segments: vec![segment],
            current: Some(Current { file, bytes: 0, salt }),
            written: Seq(first.0 - 1),
            written_checksum: 0,
            durable: Seq(first.0 - 1),
            noted: Seq(first.0 - 1),
            spent: 0,
            kept: 0,
        };
        Ok(Self::of(writer, options))
    }

    /// Opens a log that was left behind, in whatever way. Afterwards all of its records are on
    /// stable storage, and a torn tail is behind it.
    ///
    /// On a full disk that may not be possible. The log then opens for reading, says so in
    /// [`Recovery::read_only`], and refuses writes and [`sync`](Self::sync) until it is opened
    /// again; [`durable`](Self::durable) tells what is on stable storage for certain.
    ///
    /// # Errors
    /// [`WalError`]: nothing was acknowledged or lost by the attempt. Damage in the last segment
    /// is found here; damage in others by [`replay`](Self::replay).
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &str,
        id: LogId,
        options: LogOptions,
    ) -> Result<(Self, Recovery), WalError> {
        segment::remove_unfinished(&*disk, dir)?;
        let mut segments = segment::list(&*disk, dir, id)?;
        let Some(last) = segments.last() else {
            return Err(WalError::NoLog { dir: disk.locate(dir) });
        };
        let known = newest::check(&*disk, dir, id, &segments)?;
        let tail = find_tail(&*disk, id, last)?;
        if tail.next <= known {
            let (path, found) = (disk.locate(&last.path), Seq(tail.next.0 - 1));
            return Err(WalError::Cut { path, expected: known, found });
        }
        let (taken_over, read_only) = match take_over(&*disk, dir, id, last, &tail) {
            Err(full @ DiskError::NoSpace { .. }) => (None, Some(full)),
            taken_over => (taken_over?, None),
        };
        let current = taken_over.map(|Successor { segment, file, salt }| {
            newest::note(&*disk, dir, id, (segment.first, Seq(tail.next.0 - 1)));
            segments.retain(|s| s.first < segment.first);
            segments.push(segment);
            Current { file, bytes: tail.loose_bytes(), salt }
        });
        segments.shrink_to_fit();
        let first = segments[0].first;
        let end = Seq(tail.next.0 - 1);
        let mut writer = LogWriter {
            disk,
            dir: dir.into(),
            id,
            segment_bytes: options.segment_bytes,
            segments,
            current,
            written: end,
            written_checksum: tail.previous,
            durable: if read_only.is_some() { Seq(tail.loose.0 - 1) } else { end },
            noted: end,
            spent: 0,
            kept: 0,
        };
        let rewritten = if read_only.is_some() { 0 } else { tail.next.0 - tail.loose.0 };
        if rewritten > 0 {
            writer.mark()?;
        }
        let recovery = Recovery { first, last: end, rewritten, torn: tail.torn, read_only };
        if let Some(torn) = &recovery.torn {
            let TornTail { path, offset, bytes, .. } = torn;
            tracing::warn!(path = %path.display(), offset, bytes, "left a torn log tail behind");
        }
        let log = Self::of(writer, options);
        log.queue().failed = recovery.read_only.clone().map(CommitFailure::Disk);
        Ok((log, recovery))
    }
}
