//! Searching for the neighbours of rows that are to be linked, several rows at once.
//!
//! An insert waits for some dozens of reads. With several of them under way on a thread, and one
//! being linked while the pages of the others come, the device is kept busy.

use std::sync::PoisonError;

use super::error::UpdateError;
use super::generation::Generation;
use super::insert::{LinkedRow, check_row};
use super::insert_scratch::InsertScratch;
use super::link_pace::{LinkPace, MOST_IN_FLIGHT};
use super::live::{LiveIndex, check_shape};
use super::session::{Collector, Session};
use crate::search::{
    Driver, DriverOptions, Hit, PageSource, Policy, SearchError, SearchParams, SearchStats, Width,
};
use crate::types::RowId;

/// Reads in flight of a thread.
const DEPTH: usize = 64;

/// Receives the outcome for one of the rows, by its place in the call.
pub type LinkedFn<'a> = dyn FnMut(usize, Result<LinkedRow, UpdateError>) + 'a;

impl LiveIndex {
    /// Links a new row: searches for its neighbours, chooses edges and makes it visible to every
    /// search that begins after this returns. `vector` holds the bytes of one vector.
    ///
    /// # Errors
    /// [`UpdateError::Vector`] for a vector of another shape, NaN or infinity;
    /// [`UpdateError::RowExists`]; [`UpdateError::Full`] and [`UpdateError::Memory`] where a
    /// checkpoint is due; an unreadable page. Nothing is changed in any of these cases.
    pub fn insert(&self, row: RowId, vector: &[u8]) -> Result<LinkedRow, UpdateError> {
        let mut outcome = None;
        let mut linked = |_, linked| outcome = Some(linked);
        self.insert_many(&[(row, vector)], LinkPace::Full, &mut linked)?;
        outcome.expect("each row has an outcome")
    }

    /// Links new rows, some of them at once, which takes a fraction of the time of one after
    /// another where pages are read from the device. `linked` gets the outcome for each row,
    /// errors as those of [`insert`](Self::insert), in the order in which they were linked. A
    /// row is visible to every search that begins after its outcome was told.
    ///
    /// Checkpoints and consolidation wait until all are done: give some dozens of rows at a time.
    ///
    /// # Errors
    /// [`UpdateError::Poisoned`], and a broken I/O queue: rows without an outcome are not linked.
    pub fn insert_many(
        &self,
        rows: &[(RowId, &[u8])],
        pace: LinkPace,
        linked: &mut LinkedFn<'_>,
    ) -> Result<(), UpdateError> {
        let _shared = self.shared_writer()?;
        self.current().insert_many(rows, pace, linked)
    }
}

impl Generation {
    fn take_worker(&self, source: &dyn PageSource) -> Result<InsertScratch, UpdateError> {
        let kept = self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(worker) = kept {
            return Ok(worker);
        }
        let options = DriverOptions { queries: MOST_IN_FLIGHT, depth: DEPTH, sqpoll: false };
        let driver = Driver::new(self.index.backend().as_ref(), source, &options)?;
        Ok(InsertScratch { driver, seen: Vec::new() })
    }

    fn insert_many(
        &self,
        rows: &[(RowId, &[u8])],
        pace: LinkPace,
        linked: &mut LinkedFn<'_>,
    ) -> Result<(), UpdateError> {
        let session = Session::new(self);
        let InsertScratch { mut driver, seen } = self.take_worker(&session)?;
        let collector = Collector::new(&session, pace, seen);
        let (mut accepted, mut refused) = (Vec::with_capacity(rows.len()), Vec::new());
        let most_edges = self.layout().max_degree();
        for (nth, &(row, vector)) in rows.iter().enumerate() {
            // All memory is taken before the first search, which looks at pages until the last.
            let taken = self.check_new(row, vector).and_then(|()| self.charge_record(most_edges));
            match taken {
                Ok(()) => accepted.push((nth, vector)),
                Err(why) => refused.push((nth, why)),
            }
        }
        let mut unused = accepted.len() as u64 * self.record_bytes(most_edges);
        let mut rest = accepted.into_iter();
        let mut next = || rest.next().inspect(|&(nth, _)| collector.begin(nth));
        let mut answer = |nth: usize, found: Result<(&[Hit], SearchStats), SearchError>| {
            let seen = collector.end(nth);
            let (row, vector) = rows[nth];
            let made = found.map_err(UpdateError::from);
            let made = made.and_then(|_| self.link_found(row, vector, &seen));
            if let Ok(link) = &made {
                unused -= self.record_bytes(link.back_edges.len().min(most_edges));
            }
            linked(nth, made);
            collector.give_back(seen);
        };
        let params = self.neighbour_search(pace);
        let ran = driver.run(&collector, &params, None, pace.in_flight(), &mut next, &mut answer);
        self.patches.discharge(unused);
        ran?;
        for (nth, why) in refused {
            linked(nth, Err(why));
        }
        let worker = InsertScratch { driver, seen: collector.into_idle() };
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        Ok(())
    }

    pub(super) fn check_new(&self, row: RowId, vector: &[u8]) -> Result<(), UpdateError> {
        check_shape(&self.index, vector).map_err(UpdateError::Vector)?;
        check_row(row)?;
        if self.rows.get(row).is_some() { Err(UpdateError::RowExists(row)) } else { Ok(()) }
    }

    /// How neighbours are searched for: by the list of the build, but a read that will hardly
    /// change the nearest two thirds of it is left out. Decision 0013 has the figures.
    fn neighbour_search(&self, pace: LinkPace) -> SearchParams {
        let list = self.index.manifest().build.list as usize;
        let list = list.clamp(16, SearchParams::LIST_MAX);
        let policy = Policy { width: Width::Fixed(pace.width()), ..Policy::pipe() };
        SearchParams { k: list * 2 / 3, list, policy, ..SearchParams::default() }
    }
}
