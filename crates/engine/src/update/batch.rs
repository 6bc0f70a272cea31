//! Searching: one query on the caller's thread, or several of them at once there.
//!
//! A query of several is searched as it is alone, by parameters of its own: what they share is
//! the thread, whose core computes for one while the reads of the others are under way, and the
//! pages that two of them want at once.

use std::sync::{Arc, PoisonError};

use super::generation::Generation;
use super::live::{AllowList, LiveIndex, check_shape};
use super::session::Session;
use crate::filter::AllowSet;
use crate::index::{Answer, QueryError};
use crate::search::{
    Driver, DriverOptions, Hit, PageSource, QueryJob, ReservedScratch, SearchError, SearchParams,
    SearchStats,
};

/// Queries of one call that are searched at once. More of them gain nothing that was measured.
const MOST_IN_FLIGHT: usize = 8;
/// Reads in flight of a thread with one query, and with several.
const DEPTHS: (usize, usize) = (64, 128);

impl LiveIndex {
    /// Searches one query on the caller's thread, among some rows only where they are given.
    ///
    /// # Errors
    /// As [`Index::search`](crate::index::Index::search), and [`QueryError::Renumbered`] where a
    /// rewrite has changed the nodes since `among` was made.
    pub fn search(
        &self,
        query: &[u8],
        params: &SearchParams,
        among: Option<&AllowList>,
    ) -> Result<Answer, QueryError> {
        self.search_together(&[QueryJob { number: 0, query, params }], among)?.remove(0)
    }

    /// Searches several queries on the caller's thread, each by its own parameters, and answers in
    /// their order; their numbers are the caller's. All see the same moment.
    ///
    /// # Errors
    /// [`QueryError::Renumbered`], a broken I/O queue, and [`QueryError::Memory`]; else each query
    /// has an outcome of its own, as that of [`search`](Self::search).
    pub fn search_together(
        &self,
        queries: &[QueryJob<'_>],
        among: Option<&AllowList>,
    ) -> Result<Vec<Result<Answer, QueryError>>, QueryError> {
        self.search_together_until(queries, among, &|| false)
    }

    /// The same until `stop` says that nobody waits for the answers: it is asked before each query
    /// and every few milliseconds, and must not wait itself. Queries without an answer by then end
    /// as [`SearchError::Stopped`].
    ///
    /// # Errors
    /// As [`search_together`](Self::search_together).
    pub fn search_together_until(
        &self,
        queries: &[QueryJob<'_>],
        among: Option<&AllowList>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Result<Answer, QueryError>>, QueryError> {
        let generation = self.current();
        let allow = among.map(|among| among.nodes_in(&generation)).transpose()?;
        let session = Session::new(&generation);
        let wanted = queries.len().min(MOST_IN_FLIGHT);
        let accountant = generation.index.accountant();
        let params = queries.iter().map(|query| query.params);
        let in_flight = ReservedScratch::reserve(accountant, &session.view(), params, wanted)?;
        let mut driver = self.take_driver(&generation, &session, in_flight.searches)?;
        let batch = JointSearch { queries, searches: in_flight.searches, allow, stop };
        let outcomes = batch.run(&mut driver, &generation, &session)?;
        driver.slim();
        generation.drivers.lock().unwrap_or_else(PoisonError::into_inner).push(driver);
        Ok(outcomes)
    }

    /// Drops the drivers that are kept for searches to come, with their queues and buffers, and says
    /// whether there were any. Searches make theirs anew, which takes some hundred microseconds.
    pub fn drop_spare_drivers(&self) -> bool {
        let generation = self.current();
        let mut drivers = generation.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = std::mem::take(&mut *drivers);
        drop(drivers);
        !spare.is_empty()
    }

    /// A driver for one query, or for several.
    fn take_driver(
        &self,
        generation: &Generation,
        source: &dyn PageSource,
        in_flight: usize,
    ) -> Result<Driver, QueryError> {
        let (queries, depth) =
            if in_flight <= 1 { (1, DEPTHS.0) } else { (MOST_IN_FLIGHT, DEPTHS.1) };
        let kept = {
            let mut drivers = generation.drivers.lock().unwrap_or_else(PoisonError::into_inner);
            let fit = drivers.iter().rposition(|driver| driver.queries() == queries);
            fit.map(|at| drivers.swap_remove(at))
        };
        if let Some(driver) = kept {
            return Ok(driver);
        }
        let options = DriverOptions { queries, depth, sqpoll: self.options.open.sqpoll };
        Ok(Driver::new(generation.index.backend().as_ref(), source, &options)?)
    }
}

/// Queries that are searched together.
struct JointSearch<'q> {
    queries: &'q [QueryJob<'q>],
    /// Of them in flight at most.
    searches: usize,
    allow: Option<&'q Arc<AllowSet>>,
    stop: &'q dyn Fn() -> bool,
}

impl JointSearch<'_> {
    /// The outcome of each query.
    fn run(
        &self,
        driver: &mut Driver,
        generation: &Generation,
        session: &Session<'_>,
    ) -> Result<Vec<Result<Answer, QueryError>>, SearchError> {
        let &Self { queries, searches, allow, stop } = self;
        let check = |job: &QueryJob<'_>| {
            check_shape(&generation.index, job.query)?;
            job.params.validate()?;
            Ok(Answer::default())
        };
        let mut outcomes: Vec<Result<Answer, QueryError>> = queries.iter().map(check).collect();
        let sound: Vec<usize> = (0..queries.len()).filter(|at| outcomes[*at].is_ok()).collect();
        let mut sound = sound.into_iter();
        let mut next = || {
            let number = sound.next()?;
            Some(QueryJob { number, ..queries[number] })
        };
        let mut answer = |number: usize, found: Result<(&[Hit], SearchStats), SearchError>| {
            let k = queries[number].params.k;
            let whole = |(hits, stats): (&[Hit], SearchStats)| {
                let hits = hits[..hits.len().min(k)].to_vec();
                Answer { hits, stats }
            };
            outcomes[number] = found.map(whole).map_err(QueryError::from);
        };
        driver.run_jobs_until(session, allow, searches, &mut next, stop, &mut answer)?;
        // Those that were not drawn before it was stopped.
        for number in sound {
            outcomes[number] = Err(SearchError::Stopped.into());
        }
        Ok(outcomes)
    }
}
