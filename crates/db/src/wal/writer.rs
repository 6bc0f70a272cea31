//! The one place that writes: frames into segments, new segments, syncs and marks.
//!
//! Used by one thread at a time. After its first error it is not used again.

use std::sync::Arc;

use super::frame::{self, MARK_BYTES};
use super::log_id::LogId;
use super::newest;
use super::salt::Salt;
use super::segment::{self, Segment};
use crate::disk::{AppendFile, Disk, DiskError};
use crate::ids::Seq;

/// Frames on their way to the disk.
#[derive(Debug)]
pub(super) struct FrameChunk {
    pub(super) frames: Vec<u8>,
    /// First record, and the checksum of the one before it.
    pub(super) first: Seq,
    pub(super) previous: u64,
    /// Last record and its checksum.
    pub(super) last: Seq,
    pub(super) last_checksum: u64,
    /// Bytes of the disk that all records up to it may take since the log was opened.
    pub(super) asked: u64,
}

/// Room that is kept beyond what is needed: as much as the segment holds, within these bounds, and no
/// more than such a part of what is free.
const LEAST_AHEAD_BYTES: u64 = 64 << 10;
const MOST_AHEAD_BYTES: u64 = 16 << 20;
const FREE_OVER_AHEAD: u64 = 4;

/// The end of the log on disk.
#[derive(Debug)]
pub(super) struct LogWriter {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: String,
    pub(super) id: LogId,
    pub(super) segment_bytes: u64,
    /// All segments in order; never empty.
    pub(super) segments: Vec<Segment>,
    /// The last segment, where this opening created it.
    pub(super) current: Option<Current>,
    /// Last record handed to the system, and its checksum.
    pub(super) written: Seq,
    pub(super) written_checksum: u64,
    /// Last record on stable storage.
    pub(super) durable: Seq,
    /// Last record that is noted, or needs no note.
    pub(super) noted: Seq,
    /// Bytes that may be on the disk of all records since the log was opened, and those that it has
    /// kept room for: in the current segment, behind what is there.
    pub(super) spent: u64,
    pub(super) kept: u64,
}

/// A segment that has its name.
struct NamedSegment {
    segment: Segment,
    file: Box<dyn AppendFile>,
    salt: Salt,
    /// Bytes of records that the disk has kept room for.
    room: u64,
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        if let Some(current) = &self.current {
            current.file.give_back();
        }
    }
}

/// The segment being appended to.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) file: Box<dyn AppendFile>,
    /// Bytes of frames in it, about.
    pub(super) bytes: u64,
    /// Of its marks.
    pub(super) salt: Salt,
}

impl LogWriter {
    /// Writes what is in `chunk`, if anything; afterwards syncs, if asked to.
    pub(super) fn commit(
        &mut self,
        chunk: Option<&FrameChunk>,
        sync: bool,
    ) -> Result<(), DiskError> {
        if let Some(chunk) = chunk {
            self.write(chunk)?;
        }
        if sync { self.sync() } else { Ok(()) }
    }

    fn write(&mut self, chunk: &FrameChunk) -> Result<(), DiskError> {
        debug_assert_eq!(chunk.first, self.written.next(), "chunks come in order");
        debug_assert_eq!(chunk.previous, self.written_checksum, "chunks are chained");
        let bytes = chunk.frames.len() as u64;
        let full = |c: &Current| c.bytes > 0 && c.bytes + bytes > self.segment_bytes;
        if self.current.as_ref().is_none_or(full) {
            // Only the last segment may be torn.
            self.sync()?;
            match self.make_segment(self.kept - self.spent) {
                // There is room for these records where the ones before them are.
                Err(DiskError::NoSpace { .. }) if self.current.is_some() => {}
                made => self.start_segment(made?)?,
            }
        }
        let current = self.current.as_mut().expect("a segment was started");
        current.file.append(&chunk.frames)?;
        current.bytes += bytes;
        (self.written, self.written_checksum) = (chunk.last, chunk.last_checksum);
        self.spent = chunk.asked;
        Ok(())
    }

    /// Keeps room for `asked` bytes of records since the log was opened, and for some more where the
    /// disk has it.
    ///
    /// # Errors
    /// `NoSpace`: the log is as before. After any other this is not used again.
    pub(super) fn reserve(&mut self, asked: u64) -> Result<(), DiskError> {
        if asked <= self.kept {
            return Ok(());
        }
        let needed = asked - self.spent;
        let room = needed + if self.is_much_free(needed) { self.ahead() } else { 0 };
        match &self.current {
            Some(current) => {
                current.file.reserve(room + MARK_BYTES)?;
                self.kept = self.spent + room;
            }
            None => {
                let made = self.make_segment(room)?;
                self.start_segment(made)?;
            }
        }
        Ok(())
    }

    /// Keeps room ahead again when half of it is used, so that no writer has to wait for that.
    pub(super) fn reserve_ahead(&mut self) {
        let left = self.kept - self.spent;
        if self.current.is_some() && left < self.ahead() / 2 && self.is_much_free(left) {
            // Whoever needs the room is told if there is none.
            let _ = self.reserve(self.kept + 1);
        }
    }

    /// Whether room may be kept ahead, beside `needed` bytes. What the system cannot give as a whole
    /// it may give in part, and keep that from others.
    fn is_much_free(&self, needed: u64) -> bool {
        let free = self.disk.available_bytes().unwrap_or(0).saturating_sub(needed);
        free / FREE_OVER_AHEAD >= self.ahead()
    }

    fn ahead(&self) -> u64 {
        let held = self.current.as_ref().map_or(0, |current| current.bytes);
        held.clamp(LEAST_AHEAD_BYTES, MOST_AHEAD_BYTES)
    }

    /// A segment for the next record, with room for so many bytes of records, and for a mark of those
    /// before them; not part of the log yet.
    fn make_segment(&self, room: u64) -> Result<NamedSegment, DiskError> {
        let first = self.written.next();
        let path = segment::path(&self.dir, first);
        let segment = Segment { path, first, previous: self.written_checksum };
        let reserve = |file: &dyn AppendFile| file.reserve(room + MARK_BYTES);
        let (file, salt) = segment::make(&*self.disk, self.id, &segment, reserve)?;
        Ok(NamedSegment { segment, file, salt, room })
    }

    fn start_segment(&mut self, made: NamedSegment) -> Result<(), DiskError> {
        let NamedSegment { segment, file, salt, room } = made;
        self.disk.sync_dir(&self.dir)?;
        if let Some(before) = &self.current {
            before.file.give_back();
        }
        newest::note(&*self.disk, &self.dir, self.id, (segment.first, self.durable));
        self.noted = self.durable;
        // A last segment without records has the same name, and is replaced.
        self.segments.retain(|s| s.first < segment.first);
        self.segments.push(segment);
        self.current = Some(Current { file, bytes: 0, salt });
        self.kept = self.spent + room;
        Ok(())
    }

    /// Puts all that was written on stable storage.
    pub(super) fn sync(&mut self) -> Result<(), DiskError> {
        if self.durable == self.written {
            return Ok(());
        }
        let current = self.current.as_ref().expect("what is not durable was written here");
        current.file.sync()?;
        self.durable = self.written;
        Ok(())
    }

    /// Notes which records are on stable storage, where that is not known yet.
    pub(super) fn note_end(&mut self) {
        if self.noted < self.durable
            && let Some(last) = self.segments.last()
        {
            newest::note(&*self.disk, &self.dir, self.id, (last.first, self.durable));
            self.noted = self.durable;
        }
    }

    /// Says in the log that all that was written is on stable storage, which it is.
    pub(super) fn mark(&mut self) -> Result<(), DiskError> {
        debug_assert_eq!(self.durable, self.written, "marks follow syncs");
        match &mut self.current {
            Some(current) => {
                let (last, checksum) = (self.durable, self.written_checksum);
                let mark = frame::mark(self.id, last, checksum, current.salt);
                current.bytes += mark.len() as u64;
                current.file.append_losable(&mark)
            }
            None => Ok(()),
        }
    }
}
