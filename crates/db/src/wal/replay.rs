//! Reads records in order, across segments.

use std::sync::Arc;
use std::vec;

use super::error::{FrameProblem, WalError};
use super::log_id::LogId;
use super::log_record::LogRecord;
use super::scan::{Scan, Scanned};
use super::segment::Segment;
use crate::disk::Disk;
use crate::ids::Seq;

/// The records from one number on, up to the last that was written when the replay began. Ends
/// after the first error.
#[derive(Debug)]
pub struct Replay {
    disk: Arc<dyn Disk>,
    id: LogId,
    /// Segments not begun yet.
    segments: std::iter::Peekable<vec::IntoIter<Segment>>,
    scan: Option<Scan>,
    from: Seq,
    last: Seq,
    done: bool,
}

impl Replay {
    /// `segments` are in order and begin at or before `from`; the log ends with `last`.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        id: LogId,
        mut segments: Vec<Segment>,
        from: Seq,
        last: Seq,
    ) -> Self {
        let skipped = segments.partition_point(|s| s.first <= from).saturating_sub(1);
        segments.drain(..skipped);
        let segments = segments.into_iter().peekable();
        Self { disk, id, segments, scan: None, from, last, done: from > last }
    }

    /// The next record of the segments, wanted or not.
    fn step(&mut self) -> Result<LogRecord, WalError> {
        loop {
            let scan = match &mut self.scan {
                Some(scan) => scan,
                None => {
                    let first = self.segments.next().expect("a log has a segment");
                    self.scan.insert(Scan::new(&*self.disk, self.id, &first)?)
                }
            };
            // What a segment holds from the next one's first record on is the rest of a crash.
            if let Some(next) = self.segments.next_if(|next| next.first <= scan.expected()) {
                let (first, path) = (next.first, self.disk.locate(&next.path));
                if first != scan.expected() || next.previous != scan.previous() {
                    return Err(WalError::Unconnected { path, first });
                }
                *scan = Scan::new(&*self.disk, self.id, &next)?;
                continue;
            }
            match scan.next()? {
                Scanned::Record(record) => return Ok(record),
                Scanned::Mark => {}
                Scanned::Bad(problem) => return Err(scan.corrupt(problem)),
                Scanned::End => {
                    let expected = scan.expected();
                    return Err(match self.segments.peek() {
                        Some(next) => WalError::Gap {
                            path: self.disk.locate(&next.path),
                            expected,
                            found: next.first,
                        },
                        None => scan.corrupt(FrameProblem::CutOff { missing: 0 }),
                    });
                }
            }
        }
    }
}

impl Iterator for Replay {
    type Item = Result<LogRecord, WalError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            let step = self.step();
            match &step {
                Ok(record) if record.seq < self.from => continue,
                Ok(record) => self.done = record.seq >= self.last,
                Err(_) => self.done = true,
            }
            return Some(step);
        }
        None
    }
}
