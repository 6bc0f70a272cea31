//! What `churn` and `drift` do alike: rows inserted by several threads, upkeep when it is due,
//! and searches beside both whose answers are checked.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use pipeann_cli::measure::rounded;
use pipeann_engine::search::SearchParams;
use pipeann_engine::types::{RowId, VectorSet};
use pipeann_engine::update::{LinkPace, LiveIndex, UpkeepOptions};
use serde_json::{Value, json};

use super::at_once::{AT_ONCE, insert_rows};
use super::curve::K;

/// Threads, and when upkeep is due.
#[derive(Clone, Debug, Args)]
pub(super) struct LinkLoadArgs {
    /// Threads that insert
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: u16,
    /// Consolidate when there are so many deleted nodes for each live row
    #[arg(long, value_name = "SHARE", default_value_t = UpkeepOptions::default().tombstones)]
    tombstones: f64,
    /// Lay all pages out anew when so many of the rows came since the last time
    #[arg(long, value_name = "SHARE", default_value_t = UpkeepOptions::default().strewn)]
    strewn: f64,
    /// Train a codebook when the error of codes has grown so much
    #[arg(long, value_name = "TIMES", default_value_t = UpkeepOptions::default().code_drift)]
    code_drift: f32,
    /// Write a checkpoint when pending changes hold so many bytes
    #[arg(long, value_name = "BYTES", default_value_t = UpkeepOptions::default().dirty_bytes)]
    dirty_bytes: u64,
}

impl LinkLoadArgs {
    fn upkeep(&self) -> UpkeepOptions {
        UpkeepOptions {
            dirty_bytes: self.dirty_bytes,
            tombstones: self.tombstones,
            strewn: self.strewn,
            code_drift: self.code_drift,
        }
    }
}

/// A load on one index.
pub(super) struct LinkLoad<'a> {
    pub(super) args: &'a LinkLoadArgs,
    pub(super) index: &'a LiveIndex,
    done: DoneSoFar,
}

/// What was done since the last report.
#[derive(Debug, Default)]
struct DoneSoFar {
    inserted: u64,
    insert_s: f64,
    upkeep_s: f64,
    passes: u64,
    rewrites: u64,
    retrained: u64,
    checkpoints: u64,
    bytes_written: u64,
}

impl<'a> LinkLoad<'a> {
    pub(super) fn new(args: &'a LinkLoadArgs, index: &'a LiveIndex) -> Self {
        Self { args, index, done: DoneSoFar::default() }
    }

    /// Inserts rows; `vector` gives each row's bytes.
    ///
    /// # Errors
    /// The first failure of any thread.
    pub(super) fn insert<'v>(
        &mut self,
        rows: Range<u64>,
        vector: impl Fn(u64) -> &'v [u8] + Sync,
    ) -> Result<()> {
        let started = Instant::now();
        let next = AtomicU64::new(rows.start);
        let work = || -> Result<()> {
            loop {
                let first = next.fetch_add(AT_ONCE as u64, Ordering::Relaxed);
                let until = rows.end.min(first + AT_ONCE as u64);
                if first >= until {
                    return Ok(());
                }
                let some = (first..until).map(|row| (RowId(row), vector(row)));
                let checkpoint = || Ok(self.index.checkpoint(0).map(drop)?);
                insert_rows((self.index, LinkPace::Full), some, |_| (), checkpoint)?;
            }
        };
        std::thread::scope(|s| {
            let threads: Vec<_> = (0..self.args.threads).map(|_| s.spawn(work)).collect();
            let mut ended = threads.into_iter().map(|t| t.join().expect("inserts do not panic"));
            ended.try_for_each(|outcome| outcome)
        })?;
        self.done.inserted += rows.end - rows.start;
        self.done.insert_s += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Does what is due.
    ///
    /// # Errors
    /// As [`LiveIndex::upkeep`].
    pub(super) fn upkeep(&mut self) -> Result<()> {
        let started = Instant::now();
        let report = self.index.upkeep(0, &self.args.upkeep())?;
        self.done.upkeep_s += started.elapsed().as_secs_f64();
        self.done.passes += u64::from(report.removed > 0);
        self.done.rewrites += u64::from(report.due == Some(pipeann_engine::update::Due::Rewrite));
        self.done.retrained += u64::from(report.retrained);
        self.done.checkpoints += report.checkpoints;
        self.done.bytes_written += report.bytes_written;
        Ok(())
    }

    /// Puts everything on disk and reports what was done since the last time.
    ///
    /// # Errors
    /// As [`LiveIndex::checkpoint`].
    pub(super) fn finish(&mut self) -> Result<Value> {
        let report = self.index.checkpoint(0)?;
        let done = std::mem::take(&mut self.done);
        let written = done.bytes_written + report.bytes_written;
        Ok(json!({
            "inserted": done.inserted, "insert_s": rounded(done.insert_s, 2),
            "upkeep_s": rounded(done.upkeep_s, 2), "passes": done.passes,
            "rewrites": done.rewrites, "retrained": done.retrained,
            "checkpoints": done.checkpoints + 1,
            "written_per_row": rounded(written as f64 / done.inserted.max(1) as f64, 1),
            "disk_bytes": report.disk_bytes, "tombstones": self.index.tombstones(),
            "code_drift": self.index.code_drift()?,
        }))
    }
}

/// Searches one query after the other, with pauses, until `done`. Returns how many.
///
/// # Errors
/// A search that fails, or that answers a row below `first_live`, deleted before it began.
#[expect(clippy::disallowed_methods, reason = "a load beside another waits for the clock only")]
pub(super) fn search_beside(
    index: &LiveIndex,
    queries: VectorSet<'_>,
    first_live: &AtomicU64,
    done: &AtomicBool,
) -> Result<u64> {
    let params = SearchParams { k: K, ..SearchParams::default() };
    let mut searched = 0;
    while !done.load(Ordering::Relaxed) {
        let first = first_live.load(Ordering::Acquire);
        let query = queries.row(searched as usize % queries.rows());
        let hits = index.search(query, &params, None)?.hits;
        if let Some(stale) = hits.iter().find(|h| h.row.0 < first) {
            anyhow::bail!("row {} was answered after its delete", stale.row.0);
        }
        ensure!(hits.len() == K, "a search found {} rows", hits.len());
        searched += 1;
        std::thread::sleep(PAUSE);
    }
    Ok(searched)
}

/// Between two searches beside a load.
const PAUSE: Duration = Duration::from_millis(5);
