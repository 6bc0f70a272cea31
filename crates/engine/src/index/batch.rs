//! Searching: one query on the caller's thread, many over several threads, and cursors.
//!
//! Drivers (an I/O queue with scratch for several queries) are kept for reuse. A single query
//! runs on the caller's thread, without a hand-over; a batch is drawn from one counter by as
//! many threads as were asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Index;
use super::error::QueryError;
use crate::filter::AllowSet;
use crate::io::IoError;
use crate::search::{
    Driver, DriverOptions, Hit, PageSource, ReservedScratch, SearchError, SearchParams, SearchStats,
};
use crate::types::{Unfit, VectorSet, VectorType, unfit};

/// The answer to one query.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Up to `k` hits, nearest first; fewer where the index or the allow-set holds fewer.
    pub hits: Vec<Hit>,
    /// What it cost.
    pub stats: SearchStats,
}

/// How a batch is spread.
#[derive(Clone, Debug)]
pub struct BatchOptions {
    /// Threads; 0 means one for each core.
    pub threads: usize,
    /// Queries in flight on each thread, 1 to 64.
    pub in_flight: usize,
    /// Nodes that may be answered; all where it is `None`.
    pub allow: Option<Arc<AllowSet>>,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self { threads: 0, in_flight: 8, allow: None }
    }
}

impl Index {
    /// Searches one query on the caller's thread.
    ///
    /// `query` holds the bytes of one vector of the index's type and dimension, `allow` the
    /// nodes that may be answered.
    ///
    /// # Errors
    /// [`QueryError`]: bad parameters or vector (fix the input), an unreadable page (stop), or
    /// use in a forked child.
    pub fn search(
        &self,
        query: &[u8],
        params: &SearchParams,
        allow: Option<Arc<AllowSet>>,
    ) -> Result<Answer, QueryError> {
        let query = self.one_query(query)?;
        let options = BatchOptions { threads: 1, in_flight: 1, allow };
        let answers = self.search_batch(query, params, &options)?;
        Ok(answers.into_iter().next().expect("one answer for one query"))
    }

    /// Searches a batch and answers in its order. Where a list proves too short for a range of
    /// distances the query is searched again with longer ones; [`SearchStats::cut_short`] is left
    /// where the longest was too short.
    ///
    /// # Errors
    /// As [`search`](Self::search); the first failure ends the batch.
    pub fn search_batch(
        &self,
        queries: VectorSet<'_>,
        params: &SearchParams,
        options: &BatchOptions,
    ) -> Result<Vec<Answer>, QueryError> {
        self.check_process()?;
        self.check_queries(queries)?;
        params.validate()?;
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let threads = threads.min(queries.rows()).max(1);
        let next = AtomicUsize::new(0);
        let run = || self.run_share(queries, params, options, &next);
        let mut answers = vec![Answer::default(); queries.rows()];
        let shares: Vec<ShareOfQueries> = if threads == 1 {
            vec![run()?]
        } else {
            std::thread::scope(|s| {
                let work = || {
                    self.pages.backend.enter_search_thread();
                    run()
                };
                let workers: Vec<_> = (0..threads).map(|_| s.spawn(work)).collect();
                workers
                    .into_iter()
                    .map(|w| w.join().expect("a search thread does not panic"))
                    .collect::<Result<_, _>>()
            })?
        };
        for (job, answer) in shares.into_iter().flatten() {
            answers[job] = answer;
        }
        if let Some(longer) = params.longer() {
            for (row, answer) in
                answers.iter_mut().enumerate().filter(|(_, a)| a.stats.cut_short > 0)
            {
                let spent = SearchStats { cut_short: 0, ..answer.stats };
                *answer = self.search(queries.row(row), &longer, options.allow.clone())?;
                answer.stats += spent;
            }
        }
        Ok(answers)
    }

    /// What one thread does for a batch.
    fn run_share(
        &self,
        queries: VectorSet<'_>,
        params: &SearchParams,
        options: &BatchOptions,
        next: &AtomicUsize,
    ) -> Result<ShareOfQueries, QueryError> {
        let wanted = options.in_flight.clamp(1, 64);
        let params_of_all = std::iter::once(params);
        let in_flight =
            ReservedScratch::reserve(&self.accountant, &self.view(), params_of_all, wanted)?;
        let mut driver = self.take_driver(in_flight.searches)?;
        let mut share = Vec::new();
        let mut failure = None;
        let stop = std::cell::Cell::new(false);
        let mut draw = || {
            if stop.get() {
                return None;
            }
            let job = next.fetch_add(1, Ordering::Relaxed);
            (job < queries.rows()).then(|| (job, queries.row(job)))
        };
        let mut answer = |job: usize, result: Result<(&[Hit], SearchStats), _>| match result {
            Ok((hits, stats)) => {
                let hits = hits[..hits.len().min(params.k)].to_vec();
                share.push((job, Answer { hits, stats }));
            }
            Err(e) => {
                stop.set(true);
                failure.get_or_insert(e);
            }
        };
        let allow = options.allow.as_ref();
        driver.run(self, params, allow, in_flight.searches, &mut draw, &mut answer)?;
        self.give_driver(driver);
        match failure {
            None => Ok(share),
            Some(e) => Err(e.into()),
        }
    }

    /// Begins a search that can be continued for further results.
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn cursor(
        &self,
        query: &[u8],
        params: &SearchParams,
        allow: Option<Arc<AllowSet>>,
    ) -> Result<Cursor<'_>, QueryError> {
        self.check_process()?;
        self.one_query(query)?;
        params.validate()?;
        let mut driver = self.take_driver(1)?;
        let params =
            SearchParams { reserve: params.reserve.max(4 * params.list), ..params.clone() };
        let mut first = Some((0, query));
        let outcome = run_one(|answer| {
            driver.run(self, &params, allow.as_ref(), 1, &mut || first.take(), answer)
        });
        outcome?;
        Ok(Cursor { index: self, driver: Some(driver), started: false })
    }

    fn one_query<'q>(&self, query: &'q [u8]) -> Result<VectorSet<'q>, QueryError> {
        let layout = self.layout();
        if query.len() != layout.vector_bytes() {
            let found = layout.vector_type().dim_of(query.len());
            return Err(QueryError::Dimension { expected: layout.dim(), found });
        }
        Ok(VectorSet::new(query, layout.dim(), layout.vector_type())
            .expect("the length was checked"))
    }

    fn check_queries(&self, queries: VectorSet<'_>) -> Result<(), QueryError> {
        let layout = self.layout();
        if queries.vector_type() != layout.vector_type() {
            let (expected, found) = (layout.vector_type(), queries.vector_type());
            return Err(QueryError::Type { expected, found });
        }
        if queries.dim() != layout.dim() {
            return Err(QueryError::Dimension { expected: layout.dim(), found: queries.dim() });
        }
        for row in 0..queries.rows() {
            check_vector(queries.row(row), layout.vector_type(), row)?;
        }
        Ok(())
    }

    pub(crate) fn take_driver(&self, in_flight: usize) -> Result<Driver, QueryError> {
        let in_flight = in_flight.clamp(1, 64);
        let kept = {
            let mut drivers = self.drivers.lock().expect("no holder of this lock panics");
            let fit = drivers.iter().position(|d| d.queries() >= in_flight);
            fit.map(|at| drivers.swap_remove(at))
        };
        match kept {
            Some(driver) => Ok(driver),
            None => {
                let depth = (in_flight * 32).clamp(64, 256);
                let options = DriverOptions { queries: in_flight, depth, sqpoll: self.sqpoll };
                Ok(Driver::new(self.pages.backend.as_ref(), self, &options)?)
            }
        }
    }

    fn give_driver(&self, mut driver: Driver) {
        driver.slim();
        self.drivers.lock().expect("no holder of this lock panics").push(driver);
    }
}

type ShareOfQueries = Vec<(usize, Answer)>;

/// Runs a driver over one query and hands on whatever went wrong.
fn run_one(
    run: impl FnOnce(&mut crate::search::AnswerFn<'_>) -> Result<(), SearchError>,
) -> Result<(), QueryError> {
    let mut failure = None;
    run(&mut |_, result| failure = result.err())?;
    failure.map_or(Ok(()), |e| Err(e.into()))
}

/// Refuses a vector that no distance can be computed of.
pub(crate) fn check_vector(bytes: &[u8], ty: VectorType, row: usize) -> Result<(), QueryError> {
    match unfit(bytes, ty) {
        None => Ok(()),
        Some(Unfit::NotFinite(_)) => Err(QueryError::NotFinite { row }),
        Some(Unfit::Norm(squared_norm)) => Err(QueryError::Norm { row, squared_norm }),
    }
}

/// A search that hands out its results in portions, nearest first, each row once.
pub struct Cursor<'i> {
    index: &'i Index,
    driver: Option<Driver>,
    started: bool,
}

impl Cursor<'_> {
    /// The next `n` hits; fewer or none where the index has no more to give.
    ///
    /// # Errors
    /// As [`Index::search`].
    pub fn next(&mut self, n: usize) -> Result<Vec<Hit>, QueryError> {
        self.index.check_process()?;
        let mut out = Vec::with_capacity(n);
        let Some(driver) = self.driver.as_mut() else {
            return Err(SearchError::Queue(IoError::Broken).into());
        };
        if self.started || driver.state().params().k < n {
            let more = if self.started { n } else { n - driver.state().params().k };
            driver.state().extend(&self.index.view(), more);
            if let Err(error) = run_one(|answer| driver.resume(self.index, answer)) {
                if matches!(error, QueryError::Search(SearchError::Queue(_))) {
                    // It is of no use to other searches either.
                    self.driver = None;
                }
                return Err(error);
            }
        }
        self.started = true;
        driver.state().take_hits(n, &mut out);
        Ok(out)
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            self.index.give_driver(driver);
        }
    }
}
