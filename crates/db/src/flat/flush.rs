//! Writing the tail as a segment, and rewriting segments without rows that are no longer wanted.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use super::manifest::{SegmentsManifest, VectorSegmentEntry};
use super::merge::merged;
use super::segment::{SegmentWriter, VectorSegment, file_name};
use super::{FlatError, FlatVectors, VectorsState};
use crate::ids::{RowId, Seq};

/// Blocks read at once from segments that are merged.
const BLOCKS_AT_ONCE: usize = 8;

/// What one round of writing rewrites.
#[derive(Clone, Copy)]
enum FlushRewrite<'a> {
    /// The small segments at the end, all their rows.
    Small,
    /// Every segment, and only these rows.
    Only(&'a dyn Fn(RowId) -> bool),
}

/// What a round has made.
struct Written {
    manifest: SegmentsManifest,
    segments: Vec<Arc<VectorSegment>>,
    /// Files that are no longer listed.
    obsolete: Vec<PathBuf>,
}

impl FlatVectors {
    pub(super) fn flush_tail(&self) -> Result<Seq, FlatError> {
        // A flush that panicked has changed neither `FLAT` nor this copy of it half-way.
        let mut on_disk = self.on_disk.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.round(&mut on_disk, FlushRewrite::Small)? {}
        Ok(on_disk.durable)
    }

    pub(super) fn rewrite(&self, keep: &dyn Fn(RowId) -> bool) -> Result<Seq, FlatError> {
        let mut on_disk = self.on_disk.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.round(&mut on_disk, FlushRewrite::Only(keep))? {}
        Ok(on_disk.durable)
    }

    /// Writes the sealed tail, sealing what was appended so far where there is none. `false` where
    /// a tail from a failed flush went first, and another round is due.
    fn round(
        &self,
        on_disk: &mut SegmentsManifest,
        rewrite: FlushRewrite<'_>,
    ) -> Result<bool, FlatError> {
        let (view, newly_sealed) = {
            let mut state = self.state();
            let newly_sealed = state.sealed.is_empty();
            if newly_sealed {
                state.sealed = std::mem::take(&mut state.active);
                state.sealed_at = state.applied;
            }
            (state.clone(), newly_sealed)
        };
        // Taken before anything is written: where replacing `FLAT` fails at its very end, it
        // lists the new segment, and the next attempt must not write over that.
        let number = on_disk.next_segment;
        on_disk.next_segment += 1;
        let written = match rewrite {
            FlushRewrite::Small if view.sealed.is_empty() => {
                if view.sealed_at == on_disk.durable {
                    return Ok(newly_sealed);
                }
                self.list(on_disk, &view, view.segments.to_vec(), Vec::new())?
            }
            _ => self.write(on_disk, &view, number, rewrite)?,
        };
        *on_disk = written.manifest;
        {
            let mut state = self.state();
            state.cuts += u64::from(matches!(rewrite, FlushRewrite::Only(_)));
            state.segments = Arc::new(written.segments);
            state.sealed = Arc::default();
            state.durable = view.sealed_at;
        }
        remove(&written.obsolete);
        Ok(newly_sealed)
    }

    /// Writes the sealed tail and what is to be rewritten as segment `number`, then the manifest.
    fn write(
        &self,
        on_disk: &SegmentsManifest,
        view: &VectorsState,
        number: u64,
        rewrite: FlushRewrite<'_>,
    ) -> Result<Written, FlatError> {
        let rows: Vec<_> = view.segments.iter().map(|segment| segment.rows()).collect();
        let count = match rewrite {
            FlushRewrite::Small => {
                merged(&rows, view.sealed.rows() as u64, self.shape.vector_bytes())
            }
            FlushRewrite::Only(_) => rows.len(),
        };
        let (kept, old) = view.segments.split_at(rows.len() - count);
        let entry = self.write_segment(old, view, number, rewrite).inspect_err(|_| {
            // Best effort: the error that led here is the one to report.
            let _ = fs::remove_file(self.dir.join(file_name(number)));
        })?;
        let mut obsolete: Vec<_> = old.iter().map(|segment| segment.path().to_owned()).collect();
        let mut segments = kept.to_vec();
        if entry.rows > 0 {
            let sync = File::open(&self.dir).and_then(|dir| dir.sync_all());
            sync.map_err(FlatError::io("sync", &self.dir))?;
            let new = VectorSegment::open(&self.dir, entry, self.shape, &self.accountant)?;
            segments.push(Arc::new(new));
        } else {
            obsolete.push(self.dir.join(file_name(number)));
        }
        self.list(on_disk, view, segments, obsolete)
    }

    /// Puts the manifest that lists `segments` in place. What the segments hold and what it calls
    /// durable change at once: a row on disk that is replayed as well would be there twice.
    fn list(
        &self,
        on_disk: &SegmentsManifest,
        view: &VectorsState,
        segments: Vec<Arc<VectorSegment>>,
        obsolete: Vec<PathBuf>,
    ) -> Result<Written, FlatError> {
        let entries = segments.iter().map(|segment| segment.entry()).collect();
        let manifest =
            SegmentsManifest { durable: view.sealed_at, segments: entries, ..on_disk.clone() };
        manifest.write(&self.dir)?;
        Ok(Written { manifest, segments, obsolete })
    }

    fn write_segment(
        &self,
        old: &[Arc<VectorSegment>],
        view: &VectorsState,
        number: u64,
        rewrite: FlushRewrite<'_>,
    ) -> Result<VectorSegmentEntry, FlatError> {
        let vector_bytes = self.shape.vector_bytes();
        let mut writer = SegmentWriter::create(&self.dir, number, self.shape)?;
        let mut push = |row: RowId, vector: &[u8]| match rewrite {
            FlushRewrite::Only(keep) if !keep(row) => Ok(()),
            _ => writer.push(row, vector),
        };
        let mut buffer = Vec::new();
        for segment in old {
            for first in (0..segment.blocks()).step_by(BLOCKS_AT_ONCE) {
                let count = BLOCKS_AT_ONCE.min(segment.blocks() - first);
                let mut pushed = Ok(());
                segment.read_blocks(first, count, &mut buffer, |block| {
                    let mut rows = block.rows().zip(block.vectors().chunks_exact(vector_bytes));
                    if pushed.is_ok() {
                        pushed = rows.try_for_each(|(row, vector)| push(row, vector));
                    }
                })?;
                pushed?;
            }
        }
        for chunk in view.sealed.chunks() {
            let mut rows = chunk.rows().iter().zip(chunk.vectors().chunks_exact(vector_bytes));
            rows.try_for_each(|(row, vector)| push(*row, vector))?;
        }
        writer.finish()
    }
}

/// Removes the files of segments that were merged. Searches that began before still read them
/// through their open files, and what cannot be removed now goes on the next opening.
fn remove(obsolete: &[PathBuf]) {
    for path in obsolete {
        if let Err(e) = fs::remove_file(path) {
            tracing::warn!(file = %path.display(), "cannot remove a merged segment: {e}");
        }
    }
}
