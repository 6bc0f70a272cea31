//! The one place that writes: frames into segments, new segments, syncs and marks.
//!
//! Used by one thread at a time. After its first error it is not used again.

use std::sync::Arc;

use super::frame;
use super::newest;
use super::segment::{self, LogId, Segment};
use crate::disk::{AppendFile, Disk, DiskError};
use crate::ids::Seq;

/// Frames on their way to the disk.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) frames: Vec<u8>,
    /// First record, and the checksum of the one before it.
    pub(super) first: Seq,
    pub(super) previous: u64,
    /// Last record and its checksum.
    pub(super) last: Seq,
    pub(super) last_checksum: u64,
}

/// The end of the log on disk.
#[derive(Debug)]
pub(super) struct Writer {
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
}

/// The segment being appended to.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) file: Box<dyn AppendFile>,
    /// Bytes of frames in it, about.
    pub(super) bytes: u64,
}

impl Writer {
    /// Writes what is in `chunk`, if anything; afterwards syncs, if asked to.
    pub(super) fn commit(&mut self, chunk: Option<&Chunk>, sync: bool) -> Result<(), DiskError> {
        if let Some(chunk) = chunk {
            self.write(chunk)?;
        }
        if sync { self.sync() } else { Ok(()) }
    }

    fn write(&mut self, chunk: &Chunk) -> Result<(), DiskError> {
        debug_assert_eq!(chunk.first, self.written.next(), "chunks come in order");
        debug_assert_eq!(chunk.previous, self.written_checksum, "chunks are chained");
        let bytes = chunk.frames.len() as u64;
        let full = |c: &Current| c.bytes > 0 && c.bytes + bytes > self.segment_bytes;
        if self.current.as_ref().is_none_or(full) {
            // Only the last segment may be torn.
            self.sync()?;
            self.start_segment()?;
        }
        let current = self.current.as_mut().expect("a segment was started");
        current.file.append(&chunk.frames)?;
        current.bytes += bytes;
        (self.written, self.written_checksum) = (chunk.last, chunk.last_checksum);
        Ok(())
    }

    fn start_segment(&mut self) -> Result<(), DiskError> {
        let first = self.written.next();
        let path = segment::path(&self.dir, first);
        let segment = Segment { path, first, previous: self.written_checksum };
        let file = segment::create(&*self.disk, &self.dir, self.id, &segment, |_| Ok(()))?;
        newest::note(&*self.disk, &self.dir, self.id, first);
        // A last segment without records has the same name, and is replaced.
        self.segments.retain(|s| s.first < first);
        self.segments.push(segment);
        self.current = Some(Current { file, bytes: 0 });
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

    /// Says in the log that all that was written is on stable storage, which it is.
    pub(super) fn mark(&mut self) -> Result<(), DiskError> {
        debug_assert_eq!(self.durable, self.written, "marks follow syncs");
        let mark = frame::mark(self.id, self.durable, self.written_checksum);
        match &mut self.current {
            Some(current) => {
                current.bytes += mark.len() as u64;
                current.file.append(&mark)
            }
            None => Ok(()),
        }
    }
}
