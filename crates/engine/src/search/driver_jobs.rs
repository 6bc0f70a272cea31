//! What a driver searches where queries come from a closure, and answers go to one.

use std::sync::Arc;

use super::driver::Driver;
use super::error::SearchError;
use super::feed::{AnswerFn, Jobs, QueryJob};
use super::params::SearchParams;
use super::source::PageSource;
use crate::filter::AllowSet;

impl Driver {
    /// Searches until `next` gives no more queries and all answers were handed out.
    ///
    /// `next` gives a job's number and its query; `answer` receives the job's number and hits,
    /// or why there are none. Up to `queries` of them are in flight, at most [`Self::queries`].
    ///
    /// # Errors
    /// [`SearchError::Queue`] where the queue itself broke; unanswered jobs stay unanswered, and
    /// the driver must be dropped.
    pub fn run<'q>(
        &mut self,
        source: &dyn PageSource,
        params: &SearchParams,
        allow: Option<&Arc<AllowSet>>,
        queries: usize,
        next: &mut dyn FnMut() -> Option<(usize, &'q [u8])>,
        answer: &mut AnswerFn<'_>,
    ) -> Result<(), SearchError> {
        let mut next = || next().map(|(number, query)| QueryJob { number, query, params });
        self.run_jobs(source, allow, queries, &mut next, answer)
    }

    /// As [`run`](Self::run), each query by parameters of its own.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_jobs<'j>(
        &mut self,
        source: &dyn PageSource,
        allow: Option<&Arc<AllowSet>>,
        queries: usize,
        next: &mut dyn FnMut() -> Option<QueryJob<'j>>,
        answer: &mut AnswerFn<'_>,
    ) -> Result<(), SearchError> {
        self.run_jobs_until(source, allow, queries, next, &|| false, answer)
    }

    /// As [`run_jobs`](Self::run_jobs), and gives up what is under way soon after `stop` says so; asked
    /// now and then, under a lease. What was given up is answered [`SearchError::Stopped`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_jobs_until<'j>(
        &mut self,
        source: &dyn PageSource,
        allow: Option<&Arc<AllowSet>>,
        queries: usize,
        next: &mut dyn FnMut() -> Option<QueryJob<'j>>,
        stop: &dyn Fn() -> bool,
        answer: &mut AnswerFn<'_>,
    ) -> Result<(), SearchError> {
        self.work(source, queries, &mut Jobs { allow, next, answer, drawn: None, stop })
    }
}
