//! Writing what is in memory as a run, together with the runs that are merged with it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use roaring::{RoaringBitmap, RoaringTreemap};

use super::chunk::Chunk;
use super::manifest::RunsManifest;
use super::merge::{RunSize, is_sparse, merged};
use super::pending::PendingRows;
use super::run::{OpenRun, Run, file_name};
use super::write::{RunPlan, RunSource};
use super::{ScalarError, ScalarIndexes};
use crate::ids::{RowId, Seq};

/// Which rows are gone for good.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The live rows of a moment.
    pub live: &'a RoaringTreemap,
    /// The first row id that had not been given out then; rows from it on stay.
    pub next_row: RowId,
}

impl Judged<'_> {
    /// The rows that stay of those with these lower halves of their ids.
    fn kept(&self, high: u32, all: RoaringBitmap) -> RoaringBitmap {
        let live = self.live.bitmaps().find(|(of, _)| *of == high);
        let mut kept = live.map_or_else(RoaringBitmap::new, |(_, live)| live & &all);
        // Rows that came later are not judged.
        if let Ok(first) = u32::try_from(self.next_row.0.saturating_sub(u64::from(high) << 32)) {
            let mut later = all;
            later.remove_range(..first);
            kept |= later;
        }
        kept
    }
}

/// What a flush finds: a run on disk, or rows that are to become one.
enum FlushPart {
    Run(OpenRun),
    Rows(PendingRows),
}

impl FlushPart {
    fn high(&self) -> u32 {
        match self {
            Self::Run(open) => open.run.map().high(),
            Self::Rows(rows) => rows.high().expect("there are rows in it"),
        }
    }

    fn lows(&self) -> RoaringBitmap {
        match self {
            Self::Run(open) => open.run.map().all(),
            Self::Rows(rows) => rows.lows(),
        }
    }

    fn source(&self) -> RunSource<'_> {
        match self {
            Self::Run(open) => RunSource::Run(&open.run),
            Self::Rows(rows) => RunSource::Pending(rows),
        }
    }

    fn run(&self) -> Option<&OpenRun> {
        match self {
            Self::Run(open) => Some(open),
            Self::Rows(_) => None,
        }
    }
}

/// The runs, then the rows of all chunks, as few times as they can stand together.
fn parts(runs: &[OpenRun], chunks: &[Arc<Chunk>]) -> Vec<FlushPart> {
    let mut parts: Vec<_> = runs.iter().cloned().map(FlushPart::Run).collect();
    for Chunk { rows, .. } in chunks.iter().map(|chunk| &**chunk) {
        match parts.last_mut() {
            Some(FlushPart::Rows(last)) if last.is_like(rows) => last.extend(rows),
            _ => parts.push(FlushPart::Rows(PendingRows::clone(rows))),
        }
    }
    parts
}

/// What one round of writing works on.
struct Round<'r> {
    parts: &'r [FlushPart],
    /// What stays of each.
    kept: &'r [RoaringBitmap],
    /// How many are on disk.
    flushed: usize,
    /// Chunks in the others.
    chunks: usize,
    applied: Seq,
}

/// Parts that become one run.
struct MergeGroup {
    /// Their positions.
    parts: Range<usize>,
    number: u64,
}

impl ScalarIndexes {
    /// Puts what is applied on stable storage and returns its number. The log itself has to be
    /// durable up to [`applied`](Self::applied) before. Views and `apply` go on meanwhile. Small
    /// runs at the end are merged with the new one, and those of which most rows are gone are
    /// written again.
    ///
    /// # Errors
    /// A failed write or sync. Everything applied stays visible, the last durable number stays
    /// valid, and the call may be repeated. Damage is no error: what is on disk stays as it is
    /// then, and the next opening makes the indexes anew.
    pub fn flush(&self, judged: Judged<'_>) -> Result<Seq, ScalarError> {
        self.write_runs(judged, false)
    }

    /// Flushes, and merges all runs.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn compact(&self, judged: Judged<'_>) -> Result<Seq, ScalarError> {
        self.write_runs(judged, true)
    }

    fn write_runs(&self, judged: Judged<'_>, all: bool) -> Result<Seq, ScalarError> {
        // A flush that panicked has changed neither `SCALARS` nor this copy of it half-way.
        let mut on_disk = self.on_disk.lock().unwrap_or_else(PoisonError::into_inner);
        let (runs, chunks, applied) = {
            let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
            let mut state = self.state();
            state.end_chunk();
            (Arc::clone(&state.runs), state.chunks.clone(), state.applied)
        };
        let parts = parts(&runs, &chunks);
        let kept: Vec<_> = parts.iter().map(|part| judged.kept(part.high(), part.lows())).collect();
        let flushed = parts.iter().take_while(|part| part.run().is_some()).count();
        let round = Round { parts: &parts, kept: &kept, flushed, chunks: chunks.len(), applied };
        match self.replace(&mut on_disk, &round, self.groups(&round, all)) {
            Err(error) if error.is_damage() => {
                tracing::warn!("scalar indexes are made anew by the next opening: {error}");
                self.damaged.store(true, Ordering::Relaxed);
                self.replace(&mut on_disk, &round, split(&parts, flushed..parts.len()))
            }
            other => other,
        }
    }

    /// What is to be written.
    fn groups(&self, round: &Round<'_>, all: bool) -> Vec<Range<usize>> {
        let &Round { parts, kept, flushed, .. } = round;
        if all {
            return split(parts, 0..parts.len());
        }
        if self.damaged.load(Ordering::Relaxed) {
            return split(parts, flushed..parts.len());
        }
        let shape = |(part, kept): (&FlushPart, &RoaringBitmap)| {
            let rows = part.run().map_or(0, |open| u64::from(open.run.map().rows()));
            RunSize { rows, live: kept.len(), high: part.high() }
        };
        let shapes: Vec<_> = parts[..flushed].iter().zip(kept).map(shape).collect();
        let new = kept[flushed..].iter().map(RoaringBitmap::len).sum();
        let first = parts.get(flushed);
        let with_new = first.map_or(0, |first| merged(&shapes, new, first.high()));
        let end = flushed - with_new;
        let sparse = (0..end).filter(|&at| is_sparse(&shapes[at])).map(|at| at..at + 1);
        sparse.chain(split(parts, end..parts.len())).collect()
    }

    /// Writes each group as one run, lists it, and puts it in place of the group.
    fn replace(
        &self,
        on_disk: &mut RunsManifest,
        round: &Round<'_>,
        groups: Vec<Range<usize>>,
    ) -> Result<Seq, ScalarError> {
        let &Round { parts, kept, applied, .. } = round;
        // Without meaning where something is damaged: the next opening sees that it is 0.
        let durable = if self.damaged.load(Ordering::Relaxed) { Seq(0) } else { applied };
        if groups.is_empty() && on_disk.durable == durable {
            return Ok(applied);
        }
        // Numbers are taken before anything is written: where replacing `SCALARS` fails at its
        // very end, it lists the new runs, and the next attempt must not write over those.
        let numbered = groups.into_iter().map(|parts| {
            on_disk.next_run += 1;
            MergeGroup { parts, number: on_disk.next_run - 1 }
        });
        let groups: Vec<_> = numbered.collect();
        let mut after = Vec::with_capacity(parts.len());
        let mut at = 0;
        let stay = |range: Range<usize>| parts[range].iter().filter_map(FlushPart::run).cloned();
        for group in &groups {
            after.extend(stay(at..group.parts.start));
            at = group.parts.end;
            after.extend(self.write_group(group, parts, kept)?);
        }
        after.extend(stay(at..parts.len()));
        let sync = File::open(&self.dir).and_then(|dir| dir.sync_all());
        sync.map_err(ScalarError::io("sync", &self.dir))?;
        let numbers = after.iter().map(|open| open.run.number).collect();
        let manifest = RunsManifest { durable, runs: numbers, ..on_disk.clone() };
        manifest.write(&self.dir)?;
        *on_disk = manifest;
        {
            let mut state = self.state();
            state.chunks.drain(..round.chunks);
            state.runs = Arc::new(after);
            state.durable = applied;
        }
        for gone in
            groups.into_iter().flat_map(|group| &parts[group.parts]).filter_map(FlushPart::run)
        {
            let path = self.dir.join(file_name(gone.run.number));
            if let Err(e) = fs::remove_file(&path) {
                tracing::debug!(file = %path.display(), "is left for the next opening: {e}");
            }
        }
        Ok(applied)
    }

    /// The run that a group becomes; none where no row of it is left.
    fn write_group(
        &self,
        group: &MergeGroup,
        parts: &[FlushPart],
        kept: &[RoaringBitmap],
    ) -> Result<Option<OpenRun>, ScalarError> {
        let (parts, kept) = (&parts[group.parts.clone()], &kept[group.parts.clone()]);
        let lows = kept.iter().fold(RoaringBitmap::new(), |sum, kept| sum | kept);
        if lows.is_empty() {
            return Ok(None);
        }
        let plan = RunPlan {
            sources: parts.iter().map(FlushPart::source).collect(),
            columns: Arc::clone(&self.state().columns),
            high: parts[0].high(),
            lows,
            collection: self.options.collection,
            number: group.number,
        };
        let path = self.dir.join(file_name(group.number));
        let write = || {
            // What stands there was left by a flush that failed.
            let file = File::create(&path).map_err(ScalarError::io("create", &path))?;
            let mut out = BufWriter::with_capacity(1 << 20, file);
            let (_, signatures) = plan.write(&mut out, &path)?;
            let synced: io::Result<()> = out.flush().and_then(|()| out.get_ref().sync_all());
            synced.map_err(ScalarError::io("sync", &path))?;
            let options = &self.options;
            let run = Run::open(&self.dir, group.number, options.collection, &options.accountant)?;
            let signatures = match self.loaded.load(Ordering::Relaxed) {
                true => signatures.charged(run.signature_bytes(), &options.accountant).ok(),
                false => None,
            };
            Ok(OpenRun { run: Arc::new(run), signatures: signatures.map(Arc::new) })
        };
        let written = write();
        if written.is_err() {
            // Best effort: the error that led here is the one to report.
            let _ = fs::remove_file(&path);
        }
        written.map(Some)
    }
}

/// The range cut where the upper half of row ids changes; nothing where it is empty.
fn split(parts: &[FlushPart], range: Range<usize>) -> Vec<Range<usize>> {
    let mut at = range.start;
    let alike = parts[range].chunk_by(|a, b| a.high() == b.high());
    let cut = alike.map(|part| {
        at += part.len();
        at - part.len()..at
    });
    cut.collect()
}
