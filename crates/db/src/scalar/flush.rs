//! Writing what is in memory as a run, together with the runs that are merged with it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use roaring::{RoaringBitmap, RoaringTreemap};

use super::manifest::Manifest;
use super::merge::{Shape, is_sparse, merged};
use super::run::{OpenRun, Run, file_name};
use super::write::{Plan, Source};
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
    /// The rows of a run that stay, by the lower halves of their ids.
    fn kept(&self, run: &Run) -> RoaringBitmap {
        let (high, all) = (run.map().high(), run.map().all());
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

/// Runs that become one.
struct Group {
    /// Positions among the runs of the moment.
    runs: Range<usize>,
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
        let (runs, applied) = {
            let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
            self.seal()?;
            let state = self.state();
            (Arc::clone(&state.runs), state.applied)
        };
        let flushed = runs.iter().take_while(|open| open.run.is_on_disk()).count();
        let kept: Vec<_> = runs.iter().map(|open| judged.kept(&open.run)).collect();
        let groups = self.groups(&runs, &kept, flushed, all);
        match self.replace(&mut on_disk, &runs, &kept, applied, groups) {
            Err(error) if error.is_damage() => {
                tracing::warn!("scalar indexes are made anew by the next opening: {error}");
                self.damaged.store(true, Ordering::Relaxed);
                let only_new = split(&runs, flushed..runs.len());
                self.replace(&mut on_disk, &runs, &kept, applied, only_new)
            }
            other => other,
        }
    }

    /// What is to be written.
    fn groups(
        &self,
        runs: &[OpenRun],
        kept: &[RoaringBitmap],
        flushed: usize,
        all: bool,
    ) -> Vec<Range<usize>> {
        if all {
            return split(runs, 0..runs.len());
        }
        if self.damaged.load(Ordering::Relaxed) {
            return split(runs, flushed..runs.len());
        }
        let shape = |at: usize| {
            let map = runs[at].run.map();
            Shape { rows: map.rows().into(), live: kept[at].len(), high: map.high() }
        };
        let shapes: Vec<_> = (0..flushed).map(shape).collect();
        let new = kept[flushed..].iter().map(RoaringBitmap::len).sum();
        let with_new = match runs.get(flushed) {
            Some(first) => merged(&shapes, new, first.run.map().high()),
            None => 0,
        };
        let end = flushed - with_new;
        let sparse = (0..end).filter(|&at| is_sparse(&shapes[at])).map(|at| at..at + 1);
        sparse.chain(split(runs, end..runs.len())).collect()
    }

    /// Writes each group as one run, lists it, and puts it in place of the group.
    fn replace(
        &self,
        on_disk: &mut Manifest,
        runs: &[OpenRun],
        kept: &[RoaringBitmap],
        applied: Seq,
        groups: Vec<Range<usize>>,
    ) -> Result<Seq, ScalarError> {
        // Without meaning where something is damaged: the next opening sees that it is 0.
        let durable = if self.damaged.load(Ordering::Relaxed) { Seq(0) } else { applied };
        if groups.is_empty() && on_disk.durable == durable {
            return Ok(applied);
        }
        // Numbers are taken before anything is written: where replacing `SCALARS` fails at its
        // very end, it lists the new runs, and the next attempt must not write over those.
        let numbered = groups.into_iter().map(|runs| {
            on_disk.next_run += 1;
            Group { runs, number: on_disk.next_run - 1 }
        });
        let groups: Vec<_> = numbered.collect();
        let mut after = Vec::with_capacity(runs.len());
        let mut at = 0;
        for group in &groups {
            after.extend_from_slice(&runs[at..group.runs.start]);
            at = group.runs.end;
            after.extend(self.write_group(
                group,
                &runs[group.runs.clone()],
                &kept[group.runs.clone()],
            )?);
        }
        after.extend_from_slice(&runs[at..]);
        let sync = File::open(&self.dir).and_then(|dir| dir.sync_all());
        sync.map_err(ScalarError::io("sync", &self.dir))?;
        let numbers = after.iter().map(|open| open.run.number).collect();
        let manifest = Manifest { durable, runs: numbers, ..on_disk.clone() };
        manifest.write(&self.dir)?;
        *on_disk = manifest;
        {
            let mut state = self.state();
            // What was sealed meanwhile stays in memory.
            after.extend_from_slice(&state.runs[runs.len()..]);
            let waiting = after.iter().filter(|open| !open.run.is_on_disk());
            let bytes = waiting.map(|OpenRun { run, .. }| {
                run.length() + run.directory_bytes() + run.signature_bytes()
            });
            state.waiting_bytes = bytes.sum();
            state.runs = Arc::new(after);
            state.durable = applied;
        }
        for group in groups {
            let gone = runs[group.runs].iter().filter(|open| open.run.is_on_disk());
            for path in gone.map(|open| self.dir.join(file_name(open.run.number))) {
                if let Err(e) = fs::remove_file(&path) {
                    tracing::debug!(file = %path.display(), "is left for the next opening: {e}");
                }
            }
        }
        Ok(applied)
    }

    /// The run that a group becomes; none where no row of it is left.
    fn write_group(
        &self,
        group: &Group,
        runs: &[OpenRun],
        kept: &[RoaringBitmap],
    ) -> Result<Option<OpenRun>, ScalarError> {
        let lows = kept.iter().fold(RoaringBitmap::new(), |sum, kept| sum | kept);
        if lows.is_empty() {
            return Ok(None);
        }
        let plan = Plan {
            sources: runs.iter().map(|open| Source::Run(&open.run)).collect(),
            columns: Arc::clone(&self.state().columns),
            high: runs[0].run.map().high(),
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
fn split(runs: &[OpenRun], range: Range<usize>) -> Vec<Range<usize>> {
    let start = range.start;
    let parts = runs[range].chunk_by(|a, b| a.run.map().high() == b.run.map().high());
    let mut at = start;
    let cut = parts.map(|part| {
        at += part.len();
        at - part.len()..at
    });
    cut.collect()
}
