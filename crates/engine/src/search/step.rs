//! The search algorithm as a state machine: pages in, wishes out.
//!
//! A driver calls [`SearchState::begin`], then [`SearchState::step`] until it answers
//! [`Step::Wait`] or [`Step::Done`]; each finished page goes to [`SearchState::receive`], which
//! takes what it needs at once, so that the page's buffer is free again when it returns.
//!
//! What a page gives: the exact distance of every record in it. Records that enter the candidate
//! list keep their neighbours in a stash until they are explored, so a node that lies in a page
//! already paid for costs no further read. All of them are explored, the nearest first: holding
//! back those behind the nearest unread candidate saved an eighth of the scoring but cost 2% more
//! reads at equal recall. Neighbours are ranked by their codes, nodes whose record was seen by
//! exact distance, and the answer is exact.
//!
//! When to stop: with [`Policy::early_stop`](super::Policy::early_stop) a candidate is read only
//! while its coded distance, less what codes have turned out to promise too much in this query,
//! could still be among the `k` nearest, and within the range where one is given; otherwise, and
//! where the query lies far beyond all codes, while it is among the nearest `list`.

use super::allowed::AllowPlan;
use super::candidates::{Candidate, CandidateProgress};
use super::policy::Issue;
use super::portable_state::InFlight;
use super::state::{SearchState, Step};
use super::stats::SearchStats;
use super::view::{CodesUnavailable, GraphView};
use super::width::Width;

impl SearchState {
    /// Takes the next step. See [`Step`] for what the driver does with the answer.
    ///
    /// # Errors
    /// [`CodesUnavailable`] where codes of neighbours cannot be read; the query is lost then.
    pub fn step(&mut self, view: &GraphView<'_>) -> Result<Step, CodesUnavailable> {
        if let Some(step) = self.rebuild_step() {
            return Ok(step);
        }
        if self.derived.expanding.on {
            return self.step_expansion(view);
        }
        if let Some(step) = self.goes_home(view) {
            return Ok(step);
        }
        if let (true, Some(pages)) = (self.derived.in_memory, view.pages) {
            return Ok(self.step_in_memory(view, pages));
        }
        if self.walks_in_vain(view) && !self.begin_scan(view) {
            return Ok(Step::Done);
        }
        if let Some(step) = self.scan_on(view)? {
            return Ok(step);
        }
        let window = self.window();
        if self.portable.params.policy.barrier {
            self.step_barrier(view, window)
        } else {
            self.step_pipe(view, window)
        }
    }

    fn step_pipe(&mut self, view: &GraphView<'_>, window: usize) -> Result<Step, CodesUnavailable> {
        let unread = self.next_unread(window);
        self.adapt_width(unread.unwrap_or(window));
        let next = self.portable.list.first_at_hand(window);
        let in_turn = match self.portable.params.policy.issue {
            Issue::Fill => true,
            Issue::OneByOne => next.is_none() || self.portable.explored_last,
            Issue::Informed => next.is_none(),
        };
        let may_issue = self.portable.in_flight.len() < usize::from(self.portable.width) && in_turn;
        let ahead = usize::from(self.portable.params.policy.ahead);
        let here = unread.filter(|_| may_issue);
        let here = here.and_then(|nearest| self.nearest_here(view, nearest, window, ahead));
        if let Some(i) = here {
            self.portable.explored_last = false;
            return Ok(self.issue(view, i));
        }
        if let Some(i) = next {
            self.portable.explored_last = true;
            self.explore(view, i)?;
            return Ok(Step::Explored);
        }
        if let (Some(i), true) = (unread, self.portable.in_flight.is_empty()) {
            return Ok(self.elsewhere(view, i));
        }
        Ok(self.idle(view, window, unread))
    }

    /// How much of the list is explored where its records are at hand.
    fn window(&self) -> usize {
        if self.portable.among.plan == AllowPlan::All {
            self.portable.params.window()
        } else {
            self.portable.list.capacity()
        }
    }

    /// Index of the nearest unread entry that is worth a read.
    fn next_unread(&mut self, window: usize) -> Option<usize> {
        let nearest = match self.portable.among.plan {
            AllowPlan::Walk => self.next_of_walk()?,
            AllowPlan::All | AllowPlan::Scan => self.portable.list.first_unread(window)?,
        };
        self.is_worth_reading(nearest).then_some(nearest)
    }

    /// Whether the entry at `index` is unread and worth a read.
    pub(super) fn is_worth_reading(&self, index: usize) -> bool {
        let entry = &self.portable.list.entries()[index];
        let near_enough = match (self.derived.reach, self.portable.among.plan) {
            (Some(reach), _) => entry.distance <= reach,
            (None, AllowPlan::Walk) => true,
            // Until the errors of codes are known, no farther than without knowing them.
            (None, plan) => {
                let short = self.portable.hits.as_slice().len() < self.portable.params.k;
                index < self.list_to_read() || plan == AllowPlan::Scan && short
            }
        };
        let passed_over =
            self.portable.among.plan == AllowPlan::Walk && index >= self.portable.among.near;
        near_enough
            && entry.progress == CandidateProgress::Unread
            && (entry.allowed || !passed_over)
    }

    fn step_barrier(
        &mut self,
        view: &GraphView<'_>,
        window: usize,
    ) -> Result<Step, CodesUnavailable> {
        let unread = self.next_unread(window);
        if self.portable.filling {
            // All of a round is chosen among the nearest at its beginning.
            let ahead = usize::from(self.portable.params.policy.ahead)
                .saturating_sub(self.portable.in_flight.len());
            let room = self.portable.in_flight.len() < usize::from(self.portable.width);
            let here = unread.filter(|_| room);
            let here = here.and_then(|nearest| self.nearest_here(view, nearest, window, ahead));
            if let Some(i) = here {
                return Ok(self.issue(view, i));
            }
            self.portable.filling = false;
        }
        if !self.portable.in_flight.is_empty() {
            return Ok(Step::Wait);
        }
        if let Some(i) = self.portable.list.first_at_hand(window) {
            self.explore(view, i)?;
            return Ok(Step::Explored);
        }
        let Some(nearest) = unread else { return Ok(self.idle(view, window, unread)) };
        self.portable.filling = true;
        let ahead = usize::from(self.portable.params.policy.ahead);
        if self.nearest_here(view, nearest, window, ahead).is_none() {
            return Ok(self.elsewhere(view, nearest));
        }
        self.step_barrier(view, window)
    }

    fn idle(&mut self, view: &GraphView<'_>, window: usize, unread: Option<usize>) -> Step {
        let reach = self.derived.reach.unwrap_or(f32::INFINITY);
        let waits = |c: &Candidate| c.progress == CandidateProgress::Issued && c.distance <= reach;
        let expects = || self.portable.list.entries().iter().take(window).any(waits);
        if !self.portable.in_flight.is_empty() && (unread.is_some() || expects()) {
            Step::Wait
        } else if self.goes_farther(view) {
            Step::Explored
        } else {
            Step::Done
        }
    }

    /// Asks for the page of the entry at `index`, or joins a read of it under way.
    fn issue(&mut self, view: &GraphView<'_>, index: usize) -> Step {
        self.portable.list.set_progress(index, CandidateProgress::Issued);
        let node = self.portable.list.entries()[index].node;
        let page = view.layout.page_of(node);
        if self.portable.in_flight.iter().any(|f| f.page == page) {
            return Step::Explored;
        }
        self.portable.in_flight.push(InFlight { page, node });
        self.portable.stats.reads += 1;
        Step::Read(page)
    }

    /// Widens the pipeline as its [`Width`] says. `found` approximates how many of the nearest
    /// nodes are found: the position of the nearest candidate whose read was not issued.
    fn adapt_width(&mut self, found: usize) {
        match &self.portable.params.policy.width {
            Width::Fixed(_) => return,
            Width::Dynamic { max, converge_at, keep_ratio, .. } => {
                if !self.portable.converging {
                    self.portable.converging = found >= usize::from(*converge_at);
                } else if self.portable.finished > 0 {
                    let ratio =
                        self.portable.finished_in_list as f32 / self.portable.finished as f32;
                    if ratio >= *keep_ratio {
                        self.portable.width = (self.portable.width + 1).min(*max);
                    }
                    self.portable.finished = 0;
                    self.portable.finished_in_list = 0;
                }
            }
            Width::Table(table) => {
                let reached = table.iter().rev().find(|&&(at, _)| found >= usize::from(at));
                self.portable.width = reached.map_or(self.portable.width, |&(_, w)| w);
            }
        }
        self.portable.stats.width_max =
            self.portable.stats.width_max.max(u64::from(self.portable.width));
    }

    /// What the query has cost so far. Times are zero: the driver fills them in.
    pub fn stats(&self) -> SearchStats {
        SearchStats { cut_short: u64::from(self.is_cut_short()), ..self.portable.stats }
    }
}
