//! Putting the components on stable storage, and cutting the log behind them.
//!
//! A flush is due when a buffer is half full. It runs before the next write, or, where the options say
//! so, behind the writes on a thread of its own; then a write waits for it only when a buffer is full.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::thread;

use roaring::RoaringTreemap;

use super::links::least_applied;
use crate::collection::identity::LIVE_FILE;
use crate::collection::live::LiveRows;
use crate::collection::live_file;
use crate::collection::{Collection, CollectionError};
use crate::disk::replace_file;
use crate::field_index::FieldIndex;
use crate::flat::FlatVectors;
use crate::ids::Seq;
use crate::wal::Level;

/// Vectors of deleted rows leave the disk when there are more of them than of live rows, and so
/// many at least.
const SPARED_ROWS: u64 = 1_000;

impl Collection {
    /// Puts all components on stable storage, graphs included, and cuts the log behind the least of
    /// them. Returns the record from which on the log is still needed. Reads and writes go on
    /// meanwhile.
    ///
    /// # Errors
    /// A failed write or sync; nothing is lost, and the call may be repeated.
    pub fn flush(&self) -> Result<Seq, CollectionError> {
        self.signal.forgive();
        for field in &self.components.fields {
            if let Some(graph) = field.graph().filter(|graph| graph.is_changed()) {
                self.write_graph(field, &graph, FieldIndex::checkpoint)?;
            }
        }
        self.flush_in_order()
    }

    /// Flushes the components with nobody writing, where writes are answered before their sync: a
    /// component could otherwise hold a record durably that a power cut takes from the log.
    fn flush_in_order(&self) -> Result<Seq, CollectionError> {
        let answers_early = self.options.log.level == Level::None;
        let order = answers_early.then(|| self.order_when_applied()).transpose()?;
        let flushed = self.flush_components();
        drop(order);
        flushed
    }

    /// Flushes all but the graphs, which hold back the log then. At the level `none` nobody else
    /// applies records meanwhile.
    pub(in crate::collection) fn flush_components(&self) -> Result<Seq, CollectionError> {
        let one = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_as_the_one(&one)
    }

    /// As [`flush_components`](Self::flush_components), by whoever keeps others from flushing.
    fn flush_as_the_one(&self, _one: &MutexGuard<'_, ()>) -> Result<Seq, CollectionError> {
        // Whatever comes from now on may ask for the next one.
        self.pressed.store(false, Ordering::Relaxed);
        let flushed = self.flush_all();
        if flushed.is_err() {
            self.pressed.store(true, Ordering::Relaxed);
        }
        flushed
    }

    fn flush_all(&self) -> Result<Seq, CollectionError> {
        // No component may be ahead of the log after a power cut.
        let _synced = self.log.answer_after_sync();
        self.log.sync()?;
        let logged = self.logged_bytes.load(Ordering::Relaxed);
        let (live, kept) = self.live_and_held();
        // Scalar indexes take about as long as all others, and another core.
        let (others, scalars) = thread::scope(|scope| {
            let scalars = scope.spawn(|| self.components.scalars.flush(live.judged()));
            let others = self.flush_vectors_and_rows(&live, &kept);
            (others, scalars.join().expect("flushing does not panic"))
        });
        let mut least = others?.min(scalars?);
        let bytes = live_file::encode(self.identity.bytes(), &live);
        replace_file(&*self.disk, &self.path(LIVE_FILE), &bytes)?;
        self.ages.save(&*self.disk)?;
        least = least_applied(&self.components.fields, least);
        self.log.truncate_before(least.next())?;
        self.logged_bytes.fetch_sub(logged, Ordering::Relaxed);
        Ok(least.next())
    }

    /// Flushes vectors and rows, and returns the last record that all of them and `live` include.
    /// Vectors of other rows than the `kept` ones may go.
    fn flush_vectors_and_rows(
        &self,
        live: &LiveRows,
        kept: &RoaringTreemap,
    ) -> Result<Seq, CollectionError> {
        let mut least = live.applied;
        for field in &self.components.fields {
            let durable = match self.may_retain(&field.vectors, kept.len()) {
                // Rows that came after `live` was looked at are not judged by it.
                true => field.vectors.retain(&|row| row >= live.next_row || kept.contains(row.0)),
                false => field.vectors.flush(),
            };
            let durable = match durable {
                Err(error) if error.is_disk_full() => {
                    tracing::warn!("vectors of deleted rows stay on the disk: {error}");
                    field.vectors.flush()
                }
                durable => durable,
            };
            least = least.min(durable.map_err(CollectionError::vectors(&field.name))?);
        }
        self.components.rows.flush()?;
        // What was flushed is safe without it.
        loop {
            match self.components.rows.compact() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.is_disk_full() => {
                    tracing::warn!("rows are not compacted: {error}");
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(least.min(self.components.rows.durable()))
    }

    /// Whether so many vectors are to be written anew without the others: enough are of deleted rows,
    /// and the disk has room for both.
    fn may_retain(&self, vectors: &FlatVectors, kept: u64) -> bool {
        let needed = kept.saturating_mul(vectors.vector_bytes() as u64);
        vectors.len() > 2 * kept + SPARED_ROWS
            && self.disk.available_bytes().is_ok_and(|available| available > needed)
    }

    /// Flushes where a buffer or the log has grown enough to ask for it.
    pub(in crate::collection) fn flush_if_pressed(&self) -> Result<(), CollectionError> {
        if !self.is_flush_due() {
            return Ok(());
        }
        if !self.may_flush_behind() {
            return self.flush_when_due();
        }
        // A write that is in the log cannot be refused any more, so it had better find room.
        while self.components.is_full() {
            let one = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever flushed meanwhile may have made it.
            if self.components.is_full() {
                self.flush_as_the_one(&one)?;
                self.checkpoint_behind();
            }
        }
        if !self.is_flush_due() || self.flushes_behind() { Ok(()) } else { self.flush_when_due() }
    }

    fn is_flush_due(&self) -> bool {
        let logged = self.logged_bytes.load(Ordering::Relaxed);
        self.pressed.load(Ordering::Relaxed) || logged >= self.options.flush_log_bytes
    }

    fn may_flush_behind(&self) -> bool {
        self.options.flush_behind && self.options.log.level != Level::None
    }

    fn flush_when_due(&self) -> Result<(), CollectionError> {
        let flushed = self.flush_in_order();
        self.flush_behind.failed.store(flushed.is_err(), Ordering::Relaxed);
        flushed?;
        self.checkpoint_behind();
        Ok(())
    }

    /// What holds back the log after a flush are the graphs.
    fn checkpoint_behind(&self) {
        if self.components.fields.iter().any(|field| field.graph().is_some()) {
            self.signal.checkpoint();
        }
    }

    /// Whether a flush runs behind the writes, begun now or before. Where writes are answered before
    /// their sync none does: nobody may write meanwhile.
    fn flushes_behind(&self) -> bool {
        if !self.may_flush_behind() || self.flush_behind.failed.load(Ordering::Relaxed) {
            return false;
        }
        let mut thread = self.flush_behind.thread.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever ends the collection waits for the thread after that.
        if self.signal.is_stopped() {
            return false;
        }
        if thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return true;
        }
        let me = self.me.clone();
        let flush = move || {
            let Some(collection) = me.upgrade() else { return };
            if let Err(error) = collection.flush_when_due() {
                let id = collection.identity.id.0;
                tracing::warn!(collection = id, "a flush behind the writes fails: {error}");
            }
        };
        let name = format!("flush-{}", self.identity.id.0);
        *thread = thread::Builder::new().name(name).spawn(flush).ok();
        thread.is_some()
    }
}
