//! What a collection does behind its writes: it builds graphs, links rows behind the writes, writes
//! graphs to disk and takes deleted rows out of them.
//!
//! It is done for each collection that has a graph or builds one, or whose row store has to catch up
//! with a log that was replayed, by threads that all collections share. They hold the collection for
//! one step at a time. Links of one graph are made and logged under `linking`, which a
//! checkpoint holds too: so a graph on disk includes every link up to its number.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;

use super::signal::{Cause, Stepping};
use super::unlogged::Unlogged;
use crate::collection::field_vectors::FieldVectors;
use crate::collection::write::commit_sequencer::CommitTicket;
use crate::collection::{Collection, CollectionError};
use crate::field_index::{FieldIndex, FieldIndexError};
use crate::ids::{ErrorClass, RowId, Seq};
use crate::wal::{Link, Record, WalError};

/// Rows linked between two looks at what else there is to do.
pub(super) const ROWS_OF_STEP: usize = 512;
/// Rows that a thread links at once, their searches sharing the wait for the device. What a
/// checkpoint or a step of consolidation waits for.
pub(super) const ROWS_AT_ONCE: usize = 32;
/// A backlog larger than one in so many rows of the graph is cheaper to build than to link.
const BACKLOG_SHARE: u64 = 4;
/// Backlogs below this are linked in any case.
const LEAST_BACKLOG: u64 = 10_000;

impl Stepping for Collection {
    /// Does one step, and tells whoever waits how it went; `false` where there was nothing to do.
    fn work(&self, long: bool) -> bool {
        match self.step(long) {
            Ok(worked) => {
                self.signal.moved();
                worked
            }
            Err(error) => {
                if self.signal.fail(error.to_string()) {
                    let id = self.identity.id.0;
                    tracing::warn!(collection = id, "background work fails: {error}");
                }
                false
            }
        }
    }
}

impl Collection {
    /// Lets the work behind the writes look for something to do, from now on.
    /// A reader has none: rows that are not in a graph on disk are searched exactly there.
    pub(in crate::collection) fn wake_background(&self) {
        if self.pin.is_some() {
            return;
        }
        self.signal.attach(self.me.clone());
        self.signal.wake();
    }

    /// Ends the work and waits for it, and for a flush behind the writes.
    pub(crate) fn stop_background(&self) {
        self.signal.stop();
        self.flush_behind.join();
        self.signal.wait_for_end();
    }

    /// Does some work, a build only where it may take `long`; `false` where there was none.
    fn step(&self, long: bool) -> Result<bool, CollectionError> {
        self.disk.check()?;
        if self.components.rows.catch_up() {
            return Ok(true);
        }
        if long && let Some(begun) = self.signal.begin_build() {
            let built = self.build_graph(&begun);
            self.signal.end_build();
            return built.map(|()| true);
        }
        if self.signal.take_checkpoint() {
            self.flush()?;
            return Ok(true);
        }
        let mut worked = self.delete_expired()?;
        for field in &self.components.fields {
            worked |= match field.graph() {
                Some(graph) if graph.has_ended() => {
                    drop(graph);
                    self.open_again(field)?
                }
                Some(graph) => self.tend(field, &graph)?,
                None => self.open_or_build(field)?,
            };
        }
        Ok(worked)
    }

    fn tend(&self, field: &FieldVectors, graph: &FieldIndex) -> Result<bool, CollectionError> {
        if self.replay_links(field, graph)? {
            return Ok(true);
        }
        let pending = graph.pending().len();
        if pending > LEAST_BACKLOG.max(graph.linked() / BACKLOG_SHARE)
            && field.may_build(pending)
            && let Some(index) = self.graph_of(field)?
        {
            self.signal.build(index.id, Cause::Backlog);
            return Ok(true);
        }
        let adopted = self.adopt_told(field, graph)?;
        let (linked, full) = self.link_some(field, graph)?;
        let mut due = full || graph.is_checkpoint_due();
        let strewn = graph.is_layout_due();
        let consolidating = graph.is_consolidation_due() || strewn && graph.deleted() > 0;
        let mut lays_out = strewn && !consolidating;
        if consolidating {
            match graph.consolidate() {
                Ok(finished) => {
                    due |= finished;
                    lays_out = strewn && finished;
                }
                Err(error) if error.needs_checkpoint() => due = true,
                Err(error) => return Err(self.index_error(field, &error)),
            }
        }
        if lays_out {
            self.write_graph(field, graph, FieldIndex::reorder)?;
        } else if due {
            self.write_graph(field, graph, FieldIndex::checkpoint)?;
        }
        Ok(adopted || linked || consolidating || lays_out || due)
    }

    /// Links the oldest pending rows. Answers whether there were any, and whether the graph asks
    /// for a checkpoint before it takes more.
    fn link_some(
        &self,
        field: &FieldVectors,
        graph: &FieldIndex,
    ) -> Result<(bool, bool), CollectionError> {
        self.log_unlogged_links()?;
        let pending = graph.pending();
        let rows = match self.follows() {
            true => field.expected_links.to_link(&pending, ROWS_OF_STEP),
            false => pending.iter().take(ROWS_OF_STEP).map(RowId).collect(),
        };
        if rows.is_empty() {
            return Ok((false, false));
        }
        let vectors = field.vectors.gather(&rows).map_err(CollectionError::vectors(&field.name))?;
        let vectors = vectors.chunks_exact(field.vector_bytes());
        let work: Vec<(RowId, &[u8])> = rows.iter().copied().zip(vectors).collect();
        let threads = self.options.graph.link_threads.max(1);
        let (mut links, mut failed) = (Vec::new(), None);
        if self.log.is_shared() {
            graph.keep_links(&self.options.accountant);
        }
        let mut linking = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
        thread::scope(|scope| {
            let parts = work.chunks(work.len().div_ceil(threads));
            let link = |part| {
                graph.enter_link_thread();
                self.link_part(graph, part)
            };
            let parts: Vec<_> = parts.map(|part| scope.spawn(move || link(part))).collect();
            for part in parts {
                let (made, error) = part.join().expect("linking does not panic");
                links.extend(made);
                failed = failed.take().or(error);
            }
        });
        // What was linked is logged in any case.
        linking.0.extend(links);
        let logged = self.submit_links(&mut linking)?;
        drop(linking);
        self.pass_links(logged)?;
        match failed {
            None => Ok((true, false)),
            Some(error) if error.needs_checkpoint() => Ok((true, true)),
            // Until then a search compares them one by one.
            Some(error) if error.needs_any_scale() && field.may_build(graph.pending().len()) => {
                if let Some(index) = self.graph_of(field)? {
                    self.signal.build(index.id, Cause::Scale);
                }
                Ok((true, false))
            }
            Some(error) => Err(self.index_error(field, &error)),
        }
    }

    fn link_part(
        &self,
        graph: &FieldIndex,
        part: &[(RowId, &[u8])],
    ) -> (Vec<Link>, Option<FieldIndexError>) {
        let mut links = Vec::with_capacity(part.len());
        let linked = part.chunks(ROWS_AT_ONCE).try_for_each(|some| {
            let live = self.components.live();
            let (live, dead): (Vec<_>, Vec<_>) = some.iter().partition(|(r, _)| live.contains(*r));
            graph.remove(dead.into_iter().map(|(row, _)| row))?;
            let linked = graph.link(&live, &mut links);
            // Deleted while it was linked: whoever deleted it may have come too early.
            let now = self.components.live();
            graph.remove(live.into_iter().map(|(row, _)| row).filter(|&row| !now.contains(row)))?;
            linked
        });
        (links, linked.err())
    }

    /// Logs the links that the log had no room for, so that none which build on them come before.
    fn log_unlogged_links(&self) -> Result<(), CollectionError> {
        let mut linking = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
        let logged = self.submit_links(&mut linking)?;
        drop(linking);
        self.pass_links(logged)
    }

    /// Gives links to the log, and waits as for a write: a link that is lost is made again, but a
    /// component that included its number would be ahead of the log. Those that it has no room for
    /// stay.
    fn submit_links(
        &self,
        links: &mut Unlogged,
    ) -> Result<Option<(Seq, CommitTicket<'_>)>, CollectionError> {
        if self.log.is_shared() {
            // Other servers are told of them; after a crash the rows are linked anew.
            links.0.clear();
        }
        if links.0.is_empty() || self.turns.stopped().is_some() {
            return Ok(None);
        }
        let record = Record::Link(std::mem::take(&mut links.0));
        let payload = record.encode().map_err(WalError::from)?;
        let mut order = self.order();
        let ticket = self.log.submit(record.kind(), &payload).inspect_err(|_| {
            if let Record::Link(unlogged) = record {
                links.0 = unlogged;
            }
        })?;
        order.submitted = ticket.seq();
        let place = self.turns.place(ticket.seq());
        drop(order);
        self.logged_bytes.fetch_add(payload.len() as u64, Ordering::Relaxed);
        Ok(Some((self.log.wait(ticket)?, place)))
    }

    /// Waits for the turn of links that were logged, which change no component.
    fn pass_links(&self, logged: Option<(Seq, CommitTicket<'_>)>) -> Result<(), CollectionError> {
        let Some((seq, place)) = logged else { return Ok(()) };
        place.wait().map_err(|why| CollectionError::Stopped { why })?;
        self.components.pass(seq)?;
        place.done();
        Ok(())
    }

    /// Lets a graph be written to disk with everything that was linked so far: `write` is given
    /// the record that it includes. One that is searched no more, since it was dropped, released or
    /// replaced meanwhile, is not written.
    pub(in crate::collection) fn write_graph(
        &self,
        field: &FieldVectors,
        graph: &FieldIndex,
        write: fn(&FieldIndex, Seq) -> Result<(), FieldIndexError>,
    ) -> Result<(), CollectionError> {
        let mut linking = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
        if !field.is_searched(graph) {
            return Ok(());
        }
        // No graph may be ahead of the log after a power cut.
        let synced = self.log.sync()?;
        write(graph, synced).map_err(|error| self.index_error(field, &error))?;
        linking.forget(field.id);
        Ok(())
    }

    /// What went wrong with the graph of a field.
    pub(in crate::collection) fn index_error(
        &self,
        field: &FieldVectors,
        error: &FieldIndexError,
    ) -> CollectionError {
        let (why, class) = (error.explained(), error.class());
        CollectionError::Index { index: field.name.clone(), why, class }
    }

    /// Waits while too many rows wait to enter a graph.
    ///
    /// # Errors
    /// [`CollectionError::Index`] where they cannot enter it, [`CollectionError::Gone`].
    pub(in crate::collection) fn wait_for_links(&self) -> Result<(), CollectionError> {
        let limit = self.options.graph.pending_rows;
        let over = |field: &&FieldVectors| {
            field.graph().is_some_and(|graph| graph.pending().len() > limit)
        };
        let below =
            || self.signal.is_building() || !self.components.fields.iter().any(|f| over(&f));
        if below() {
            return Ok(());
        }
        self.wake_background();
        self.signal.wait_until(below)?;
        match (self.components.fields.iter().find(over), self.signal.failed()) {
            (Some(field), Some(why)) if !below() => {
                let for_good = field.graph().is_some_and(|graph| graph.lacks_row_ids());
                let class = if for_good { ErrorClass::FixInput } else { ErrorClass::Retry };
                let index = field.name.clone();
                let why =
                    format!("more than {limit} rows wait to enter the graph, and cannot: {why}");
                Err(CollectionError::Index { index, why, class })
            }
            _ => Ok(()),
        }
    }
}
