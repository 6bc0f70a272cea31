//! Where a driver's searches come from, and where their ends go.

use std::sync::Arc;

use super::error::SearchError;
use super::frontier::Expansion;
use super::hits::Hit;
use super::params::SearchParams;
use super::state::SearchState;
use super::stats::SearchStats;
use super::view::GraphView;
use crate::filter::AllowSet;
use crate::types::PageId;

/// Whether there is a search to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// There is; [`Feed::begin`] begins it.
    Search,
    /// Not now; the driver asks again when it has taken in what it waits for.
    Later,
    /// No more.
    Over,
}

/// How the work of a driver on a search ended.
pub enum FeedOutcome<'a> {
    /// Hits, nearest first, what it has cost, and how many were asked for.
    Found(&'a [Hit], SearchStats, usize),
    /// What an expansion gave, and what it has cost.
    Expanded(Expansion, SearchStats),
    /// It goes on where this page can be read; the state can be exported by the view.
    Elsewhere(PageId, &'a SearchState, &'a GraphView<'a>),
    /// Why there is no answer.
    Failed(SearchError),
}

/// Gives searches to a driver and takes what becomes of them, on the driver's thread.
pub trait Feed {
    /// Draws the next search. While the driver has nothing under way it is `idle`, and this may
    /// wait for one.
    fn draw(&mut self, idle: bool) -> Drawn;

    /// Begins in `state` what was drawn, or goes on with it; gives the number that its end is told
    /// by.
    fn begin(
        &mut self,
        state: &mut SearchState,
        view: &GraphView<'_>,
    ) -> (usize, Result<(), SearchError>);

    /// Whether there is a search to draw now, as far as can be told at a glance.
    fn has_more(&self) -> bool {
        false
    }

    /// The driver, which has room, is about to wait for reads: whoever brings a search may end that by
    /// the [`waker`](super::Driver::waker). False where there is one to draw instead.
    fn pauses(&mut self) -> bool {
        true
    }

    /// That wait is over.
    fn resumes(&mut self) {}

    /// Whether nobody waits any more for the searches under way, which are given up then. Asked now
    /// and then, while pages are borrowed: must wait for nothing.
    fn gives_up(&mut self) -> bool {
        false
    }

    /// The search of this number has ended.
    fn ended(&mut self, number: usize, end: FeedOutcome<'_>);
}

/// A query, and how it is searched.
#[derive(Clone, Copy, Debug)]
pub struct QueryJob<'q> {
    /// What its answer is known by.
    pub number: usize,
    /// The bytes of one vector.
    pub query: &'q [u8],
    /// What is asked of it.
    pub params: &'q SearchParams,
}

/// Receives an answer: the job's number, and hits with statistics or the reason for none.
pub type AnswerFn<'a> = dyn FnMut(usize, Result<(&[Hit], SearchStats), SearchError>) + 'a;

/// Queries from a closure, over an index that is here as a whole.
pub(super) struct Jobs<'a, 'j> {
    pub(super) allow: Option<&'a Arc<AllowSet>>,
    pub(super) next: &'a mut dyn FnMut() -> Option<QueryJob<'j>>,
    pub(super) answer: &'a mut AnswerFn<'a>,
    pub(super) drawn: Option<QueryJob<'j>>,
    /// Whether nobody waits for the answers any more.
    pub(super) stop: &'a dyn Fn() -> bool,
}

impl Feed for Jobs<'_, '_> {
    fn draw(&mut self, _idle: bool) -> Drawn {
        self.drawn = if (self.stop)() { None } else { (self.next)() };
        if self.drawn.is_some() { Drawn::Search } else { Drawn::Over }
    }

    fn begin(
        &mut self,
        state: &mut SearchState,
        view: &GraphView<'_>,
    ) -> (usize, Result<(), SearchError>) {
        let QueryJob { number, query, params } = self.drawn.take().expect("a search was drawn");
        let begun = state.begin(view, query, params, self.allow.cloned());
        (number, begun.map_err(SearchError::from))
    }

    fn gives_up(&mut self) -> bool {
        (self.stop)()
    }

    fn ended(&mut self, number: usize, end: FeedOutcome<'_>) {
        (self.answer)(
            number,
            match end {
                FeedOutcome::Found(hits, stats, _) => Ok((hits, stats)),
                FeedOutcome::Elsewhere(page, ..) => Err(SearchError::NotHere(page)),
                FeedOutcome::Expanded(..) => unreachable!("closures give searches alone"),
                FeedOutcome::Failed(why) => Err(why),
            },
        );
    }
}
