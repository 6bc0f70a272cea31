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
use super::live::{LiveIndex, LiveOptions, open_generation};
use super::orphan_files::remove_orphans;
use super::writing::Writing;
use crate::index::{OpenOptions, Resident, read_manifest};
use crate::memory::{Pool, Reservation};
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
        let anew = if renumbers { Some(room_for_another(&current, &self.options)?) } else { None };
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
                let shares = (!renumbers).then_some((&rows.map[..], &changed[..]));
                drop(anew);
                let followed = self.go_on(current, memory, shares);
                followed.map(|()| report).inspect_err(|e| self.poison(e))
            }
            Err(e) => {
                if writing.doubtful {
                    self.poison(&e);
                } else {
                    // What is left in spite of this is removed when the index is opened again.
                    writing.written.iter().for_each(|p| drop(self.options.files.remove(p)));
                }
                drop(memory);
                let _ = current.keep_headroom();
                Err(e)
            }
        };
        *self.late.lock().unwrap_or_else(PoisonError::into_inner) = None;
        done
    }

    fn memory_after(&self, current: &Generation) -> Result<NextMemory, UpdateError> {
        let pages = current.slots.lock().unwrap_or_else(PoisonError::into_inner).pages();
        let slots = u64::from(pages) * current.layout().records_per_page() as u64;
        let resident = self.options.open.resident;
        Ok(current.next_memory(self.options.spare_slots(slots), resident)?)
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
    /// codes and pages with the one before where nodes kept their ids: `shares` has the node of
    /// each row and the pages that changed.
    fn go_on(
        &self,
        current: Arc<Generation>,
        memory: NextMemory,
        shares: Option<(&[u32], &[PageId])>,
    ) -> Result<(), UpdateError> {
        let next = Arc::new(match shares {
            Some((map, changed)) => self.open_next(&current, memory, map, changed)?,
            // Neither codes nor pages stand where they did.
            None => {
                drop(memory);
                open_generation(&self.path, &self.options)?
            }
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
        memory: NextMemory,
        map: &[u32],
        changed: &[PageId],
    ) -> Result<Generation, UpdateError> {
        let slots = read_manifest(&self.path)?.slots();
        let spare_slots = self.options.spare_slots(slots);
        let open = OpenOptions { spare_slots, ..self.options.open.clone() };
        let is_changed = |page: PageId| changed.binary_search(&page).is_ok();
        let NextMemory { index, own } = memory;
        match current.index.next_generation(&open, index, &is_changed)? {
            Some(index) => current.followed_by(index, map, spare_slots, own),
            None => {
                drop(own);
                open_generation(&self.path, &self.options)
            }
        }
    }
}

/// Room for opening the next generation while nothing of the current one is given back.
fn room_for_another(
    current: &Generation,
    options: &LiveOptions,
) -> Result<Reservation, UpdateError> {
    let index = &current.index;
    let bytes = match options.open.resident {
        Resident::All => index.bytes_for_all_pages(),
        Resident::None | Resident::Remaining => index.floor().total(),
    };
    Ok(index.accountant().reserve(Pool::Codes, bytes)?)
}
