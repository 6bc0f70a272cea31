//! One generation in place of another: the snapshot of rows, what is written by whom, the
//! exchange, and how searches and changes go on.
//!
//! Inserts wait from the snapshot to the end. Deletes wait for the snapshot alone; those that come
//! after it are noted, and made again in the new generation. What the new generation needs of
//! memory is taken before anything is written, since behind the exchange nothing may fail.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::checkpoint::{Checkpoint, CheckpointReport, RowsNow};
use super::error::UpdateError;
use super::generation::{Generation, NextMemory};
use super::images::Spare;
use super::live::{LiveIndex, open_generation};
use super::orphan_files::remove_orphans;
use super::rows::RowTable;
use super::writing::Writing;
use crate::index::{OpenOptions, Resident, read_manifest};
use crate::memory::Reservation;
use crate::types::PageId;

impl LiveIndex {
    /// Writes all changes as the next generation, which includes all writes up to the sequence
    /// number `applied`, and goes on from there. Inserts wait meanwhile, searches and deletes do
    /// not.
    ///
    /// # Errors
    /// [`UpdateError`]: unreadable pages, or files that cannot be written; the changes stay in
    /// memory then and the old generation on disk. After a failed sync or exchange, where nobody
    /// can tell what a power cut would leave, all further writing is refused
    /// ([`UpdateError::Poisoned`]) until the index is opened again.
    pub fn checkpoint(&self, applied: u64) -> Result<CheckpointReport, UpdateError> {
        self.exchange(false, |work, rows| work.run(applied, rows))
    }

    /// Lets `write` write the next generation while inserts wait, and goes on from there.
    /// Whether it gives nodes other ids is said by `renumbers`.
    pub(super) fn exchange(
        &self,
        renumbers: bool,
        write: impl FnOnce(&mut Checkpoint<'_>, &RowsNow) -> Result<CheckpointReport, UpdateError>,
    ) -> Result<CheckpointReport, UpdateError> {
        let _alone = self.only_writer()?;
        let current = self.current();
        // What the next generation needs is taken first: behind the exchange nothing may fail.
        let memory = self.memory_after(&current).inspect_err(|_| {
            // Searches of an older generation may hold what is missing; the next insert asks.
            let _ = current.keep_headroom();
        })?;
        let anew = self.room_to_reopen(&current, renumbers)?;
        let rows = {
            // Deletes wait for the snapshot only, and are noted from here on.
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            *late = Some(Vec::new());
            RowsNow::of(&current)
        };
        let mut work = self.begin(&current);
        let outcome = write(&mut work, &rows);
        let Checkpoint { writing, changed, spare, .. } = work;
        drop(spare);
        let done = match outcome {
            Ok(report) => {
                self.note(&current, renumbers);
                let kept = (!renumbers).then_some(KeptNodes { table: rows.table, changed });
                let followed = self.go_on(current, NextRoom { memory, anew }, kept);
                followed.map(|()| report).inspect_err(|e| self.poison(e))
            }
            Err(e) => {
                if writing.doubtful {
                    self.poison(&e);
                } else {
                    // What is left in spite of this is removed when the index is opened again.
                    writing.written.iter().for_each(|p| drop(self.options.files.remove(p)));
                }
                drop((memory, anew));
                let _ = current.keep_headroom();
                Err(e)
            }
        };
        *self.late.lock().unwrap_or_else(PoisonError::into_inner) = None;
        done
    }

    /// Slots of the next generation where nodes keep their ids, and how many more it takes.
    fn slots_after(&self, current: &Generation) -> (u64, u32) {
        let per_page = current.layout().records_per_page() as u64;
        let slots = u64::from(current.page_count()) * per_page;
        (slots, self.options.spare_slots(slots))
    }

    fn memory_after(&self, current: &Generation) -> Result<NextMemory, UpdateError> {
        let (_, spare_slots) = self.slots_after(current);
        Ok(current.next_memory(spare_slots, self.options.open.resident)?)
    }

    /// Room for opening the next generation while nothing of the current one is given back, where it
    /// will share neither codes nor pages.
    ///
    /// Where nodes keep their ids, room that is refused is no reason to stop: changes have to reach
    /// the disk, and an index that is opened again finds what both generations need together.
    fn room_to_reopen(
        &self,
        current: &Generation,
        renumbers: bool,
    ) -> Result<Option<Reservation>, UpdateError> {
        let (slots, spare_slots) = self.slots_after(current);
        if !renumbers && current.index.has_codes_for(slots + u64::from(spare_slots)) {
            return Ok(None);
        }
        match current.room_to_reopen(spare_slots, self.options.open.resident) {
            Err(refused) if renumbers => Err(refused.into()),
            room => Ok(room.ok()),
        }
    }

    fn begin<'a>(&'a self, current: &'a Generation) -> Checkpoint<'a> {
        Checkpoint {
            generation: current,
            options: &self.options,
            writing: Writing {
                path: &self.path,
                files: self.options.files.as_ref(),
                identity: current.index.identity(),
                number: current.index.manifest().generation + 1,
                written: Vec::new(),
                bytes: 0,
                doubtful: false,
            },
            changed: Vec::new(),
            report: CheckpointReport::default(),
            spare: Spare::take(current.index.accountant(), self.options.cache_bytes),
        }
    }

    /// Notes what outlives the generation `before`, while no other writer is at work.
    fn note(&self, before: &Generation, renumbered: bool) {
        if renumbered {
            self.fragmented.store(0, Ordering::Relaxed);
            // A pass under way knows nodes by the ids they had.
            *self.pass.lock().unwrap_or_else(PoisonError::into_inner) = None;
        } else {
            self.fragmented.fetch_add(before.linked.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn poison(&self, why: &UpdateError) {
        // The first reason stands.
        let _ = self.poisoned.set(why.to_string());
    }

    /// Opens the generation just written and lets searches and changes go on with it. It shares
    /// codes and pages with the one before where nodes kept their ids.
    fn go_on(
        &self,
        current: Arc<Generation>,
        room: NextRoom,
        kept: Option<KeptNodes>,
    ) -> Result<(), UpdateError> {
        let next = Arc::new(match kept {
            Some(kept) => self.open_next(&current, room, kept)?,
            // Neither codes nor pages stand where they did.
            None => self.open_anew(room)?,
        });
        if let Err(e) = remove_orphans(&self.path, &next.index, self.options.files.as_ref()) {
            tracing::warn!("files of an old generation stay until the next open: {e}");
        }
        {
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            for row in late.take().unwrap_or_default() {
                next.delete(row);
            }
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&next);
        }
        // With its last search the old generation gives back memory that these ask for.
        drop(current);
        let _ = next.keep_headroom();
        if self.options.open.resident == Resident::All {
            // A page that cannot be read is reported to the search that needs it.
            let _ = next.index.load_absent_pages();
        }
        next.index.warm();
        Ok(())
    }

    fn open_next(
        &self,
        current: &Generation,
        room: NextRoom,
        kept: KeptNodes,
    ) -> Result<Generation, UpdateError> {
        let slots = read_manifest(&self.path)?.slots();
        let spare_slots = self.options.spare_slots(slots);
        let open = OpenOptions { spare_slots, ..self.options.open.clone() };
        let is_changed = |page: PageId| kept.changed.binary_search(&page).is_ok();
        let NextRoom { memory: NextMemory { index, own }, anew } = room;
        match current.index.next_generation(&open, index, &is_changed)? {
            Some(index) => current.followed_by(index, kept.table, spare_slots, own),
            None => {
                drop((kept, own, anew));
                open_generation(&self.path, &self.options)
            }
        }
    }

    /// Opens the generation on disk in the room that was taken for it, which is given back just
    /// before, since whoever opens an index takes its own.
    fn open_anew(&self, room: NextRoom) -> Result<Generation, UpdateError> {
        drop(room);
        open_generation(&self.path, &self.options)
    }
}

/// Memory for the next generation, taken before it is written.
struct NextRoom {
    memory: NextMemory,
    /// What it needs beside that where it shares nothing.
    anew: Option<Reservation>,
}

/// What the next generation takes over where nodes kept their ids.
struct KeptNodes {
    /// The node of each row.
    table: RowTable,
    /// Pages that changed, ascending.
    changed: Vec<PageId>,
}
