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
//!
//! The portable part (list, hits, reads under way, pages read, errors of codes, parameters,
//! query) can be exported between any two steps; the derived part (look-up table, visited set,
//! stash) is rebuilt by [`SearchState::import`] and a few page reads.
//!
//! Seeding, receiving a page, and going on later have files of their own.

use super::allow_list::{AllowPlan, AllowedNodes, SCAN_CHUNK, scan_pays};
use super::candidates::{Candidate, CandidateList, CandidateProgress};
use super::coding_error::CodingError;
use super::deferred::{DeferredNeighbours, NO_STASH};
use super::expansion::Expanding;
use super::hits::{Hit, HitList};
use super::params::{Issue, SearchParams, Width};
use super::stats::SearchStats;
use super::view::{CodesUnavailable, GraphView};
use super::visited::{Seen, VisitedSet};
use super::within::Ranged;
use crate::filter::{AllowSet, SLACK};
use crate::graph::HeadScratch;
use crate::quant::{LookupTable, score_many};
use crate::types::{Metric, NodeId, PageId, fit_squared_norm};

use std::sync::Arc;

/// What the driver has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read this page and hand it to [`SearchState::receive`].
    Read(PageId),
    /// A node was explored; call again.
    Explored,
    /// Nothing to do until a page arrives.
    Wait,
    /// What it wants next is this page, which cannot be read here, and nothing is under way:
    /// [`export`](SearchState::export) it, and [`import`](SearchState::import) it where it can be.
    Elsewhere(PageId),
    /// The answer stands in [`SearchState::hits`].
    Done,
}

/// A read under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct InFlight {
    pub(super) page: PageId,
    /// The node it was issued for.
    pub(super) node: NodeId,
}

/// See the module's description. One state serves one query at a time and is reused.
pub struct SearchState {
    // Portable.
    pub(super) query: Vec<u8>,
    pub(super) params: SearchParams,
    pub(super) list: CandidateList,
    pub(super) hits: HitList,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) read_for: Vec<NodeId>,
    pub(super) width: u16,
    pub(super) finished: u32,
    pub(super) finished_in_list: u32,
    pub(super) converging: bool,
    pub(super) filling: bool,
    pub(super) explored_last: bool,
    pub(super) allow: Option<Arc<AllowSet>>,
    /// What the allow-set was made of, for where a search goes on.
    pub(super) filter: Vec<u8>,
    pub(super) among: AllowedNodes,
    pub(super) coding_error: CodingError,
    pub(super) ranged: Ranged,
    pub(super) stats: SearchStats,
    // Derived.
    /// Coded distance beyond which nothing is read; `None` where the list alone decides.
    pub(super) reach: Option<f32>,
    /// Whether the graph is walked by exact distances.
    pub(super) in_memory: bool,
    /// Whether codes are looked up first where all is in memory.
    pub(super) screens: bool,
    pub(super) table: LookupTable,
    pub(super) visited: VisitedSet,
    pub(super) head_scratch: HeadScratch,
    pub(super) seeds: Vec<(f32, u32)>,
    pub(super) stash: DeferredNeighbours,
    pub(super) fresh: Vec<u32>,
    pub(super) scores: Vec<f32>,
    pub(super) coded: Vec<f32>,
    pub(super) neighbours: Vec<u32>,
    pub(super) at_page: Vec<Candidate>,
    pub(super) rebuild_pages: Vec<PageId>,
    pub(super) rebuild_issued: usize,
    pub(super) reissue: usize,
    pub(super) expanding: Expanding,
}

impl SearchState {
    /// A state for searches over indexes with this codebook; scratch grows with the first
    /// searches and is kept.
    pub fn new(view: &GraphView<'_>) -> Self {
        Self {
            query: Vec::new(),
            params: SearchParams::default(),
            list: CandidateList::new(0),
            hits: HitList::default(),
            in_flight: Vec::new(),
            read_for: Vec::new(),
            width: 1,
            finished: 0,
            finished_in_list: 0,
            converging: false,
            filling: true,
            explored_last: true,
            allow: None,
            filter: Vec::new(),
            among: AllowedNodes::all(),
            coding_error: CodingError::default(),
            ranged: Ranged::default(),
            stats: SearchStats::default(),
            reach: None,
            in_memory: false,
            screens: false,
            table: LookupTable::new(view.codebook),
            visited: VisitedSet::new(0),
            head_scratch: HeadScratch::default(),
            seeds: Vec::new(),
            stash: DeferredNeighbours::default(),
            fresh: Vec::new(),
            scores: Vec::new(),
            coded: Vec::new(),
            neighbours: Vec::new(),
            at_page: Vec::new(),
            rebuild_pages: Vec::new(),
            rebuild_issued: 0,
            reissue: 0,
            expanding: Expanding::default(),
        }
    }

    /// Bytes of memory held by this state.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
            + self.visited.bytes()
            + self.stash.bytes()
            + self.list.bytes()
            + self.hits.bytes()
            + self.query.capacity()
            + self.filter.capacity()
            + (self.fresh.capacity() + self.scores.capacity() + self.neighbours.capacity()) * 4
    }

    /// Starts a query: `query` holds one vector's bytes of the index's type and dimension.
    /// With an allow-set, only its nodes are answered.
    ///
    /// # Errors
    /// [`CodesUnavailable`] where codes needed to rank the first candidates cannot be read.
    ///
    /// # Panics
    /// Where the parameters fail [`SearchParams::validate`] or the query has another length
    /// than the index's vectors: the caller checks both.
    pub fn begin(
        &mut self,
        view: &GraphView<'_>,
        query: &[u8],
        params: &SearchParams,
        allow: Option<Arc<AllowSet>>,
    ) -> Result<(), CodesUnavailable> {
        assert!(params.validate().is_ok(), "parameters are validated before a search begins");
        assert_eq!(query.len(), view.layout.vector_bytes(), "query and index differ in dimension");
        let plan = match &allow {
            None => AllowPlan::All,
            Some(allow) if scan_pays(allow, view.codes_per_read) => AllowPlan::Scan,
            Some(_) => AllowPlan::Walk,
        };
        self.begin_with(view, query, params, allow, plan)
    }

    fn begin_with(
        &mut self,
        view: &GraphView<'_>,
        query: &[u8],
        params: &SearchParams,
        allow: Option<Arc<AllowSet>>,
        plan: AllowPlan,
    ) -> Result<(), CodesUnavailable> {
        self.query.clear();
        self.query.extend_from_slice(query);
        self.params.clone_from(params);
        self.params.policy.share(view.searches, view.share, view.layout.page_bytes());
        let norm = fit_squared_norm(query, view.layout.vector_type()).unwrap_or(f64::INFINITY);
        self.params.policy.early_stop &=
            view.metric != Metric::InnerProduct && !view.codebook.is_beyond(norm);
        self.allow = allow;
        self.filter.clear();
        self.among = AllowedNodes::new(plan, &self.params, self.allowed_share(view));
        let reserve = if plan == AllowPlan::All { self.params.reserve } else { 0 };
        let pages = view.pages.filter(|_| plan == AllowPlan::All && self.params.policy.in_memory);
        if let Some(pages) = pages {
            self.reset(view, self.params.window_in_memory() + reserve);
            self.seed_in_memory(view, pages);
            return Ok(());
        }
        self.reset(view, self.among.capacity(&self.params) + reserve);
        self.table.fill(view.codebook, &self.query, view.layout.vector_type());
        if plan == AllowPlan::Scan { Ok(()) } else { self.seed_from_head(view) }
    }

    /// The filter that the allow-set of this search was made of, as bytes that say it to whoever goes
    /// on with it.
    pub fn set_filter(&mut self, filter: &[u8]) {
        self.filter.clear();
        self.filter.extend_from_slice(filter);
    }

    /// As [`begin`](Self::begin), with the plan for the allow-set chosen by the test.
    #[cfg(test)]
    pub(super) fn begin_filtered(
        &mut self,
        view: &GraphView<'_>,
        query: &[u8],
        params: &SearchParams,
        allow: Arc<AllowSet>,
        plan: AllowPlan,
    ) -> Result<(), CodesUnavailable> {
        self.begin_with(view, query, params, Some(allow), plan)
    }

    /// Whether an imported or extended state still waits for pages that it reads once more.
    #[cfg(test)]
    pub(super) fn is_rebuilding(&self) -> bool {
        !self.rebuild_pages.is_empty()
    }

    /// Empties everything that belongs to a query, and makes room for a list of `capacity`.
    pub(super) fn reset(&mut self, view: &GraphView<'_>, capacity: usize) {
        self.hits.reset((self.params.list + self.params.reserve).max(self.params.k));
        // A ranking meets no neighbours.
        let scans = self.among.plan == AllowPlan::Scan;
        let met = if scans { 0 } else { capacity * view.list_bound() * 3 / 4 };
        self.visited.reset(met.clamp(2048, 1 << 18));
        self.reset_rest(view, capacity);
    }

    /// The same for a search that came from elsewhere: makes room for as many candidates as came,
    /// whatever the parameters promise. What they meet is remembered as far as the index is large.
    pub(super) fn reset_lean(&mut self, view: &GraphView<'_>, candidates: usize) {
        self.hits.reset(0);
        // Most searches are half done, and meet fewer than a whole one does.
        let few = (candidates * view.list_bound() / 4).max(1024);
        self.visited.reset_growing(few, (view.node_slots as usize).clamp(64, 4096));
        self.reset_rest(view, candidates);
    }

    fn reset_rest(&mut self, view: &GraphView<'_>, capacity: usize) {
        let degree = view.list_bound();
        self.list.reset(capacity);
        self.in_flight.clear();
        self.in_flight.reserve(usize::from(self.params.policy.width.max()));
        self.read_for.clear();
        self.read_for.reserve(4 * capacity + 64);
        self.width = self.params.policy.width.start();
        self.finished = 0;
        self.finished_in_list = 0;
        self.converging = false;
        self.filling = true;
        self.explored_last = true;
        self.coding_error = CodingError::default();
        self.ranged = Ranged::default();
        self.reach = None;
        self.in_memory = false;
        self.stats = SearchStats { width_max: u64::from(self.width), ..Default::default() };
        self.stash.reset(capacity + 1, degree);
        self.fresh.clear();
        self.fresh.reserve(degree.max(SCAN_CHUNK + SLACK));
        self.scores.resize(degree.max(SCAN_CHUNK).max(self.params.head_list), 0.0);
        self.coded.reserve(degree);
        self.neighbours.reserve(degree);
        self.at_page.reserve(view.layout.records_per_page());
        self.seeds.reserve(self.params.head_list);
        self.rebuild_pages.clear();
        self.rebuild_issued = 0;
        self.reissue = 0;
        self.expanding.on = false;
    }

    pub(super) fn add_unread(&mut self, distance: f32, node: NodeId) {
        if self.expanding.on {
            return self.expanding.met.push((distance, node));
        }
        let allowed = self.allow.as_ref().is_none_or(|allow| allow.may_allow(node));
        if self.is_turned_away(distance, allowed) {
            return;
        }
        let progress = CandidateProgress::Unread;
        let pushed =
            self.list.insert(Candidate { distance, node, stash: NO_STASH, progress, allowed });
        if let Some(pushed) = pushed {
            self.stash.release(pushed.stash);
        }
        self.keep_near();
    }

    /// Scores the nodes in `fresh` by their codes; those near enough enter the list.
    pub(super) fn score_fresh(&mut self, view: &GraphView<'_>) -> Result<(), CodesUnavailable> {
        if !view.codes.is_resident() {
            self.await_codes(view)?;
        }
        let n = self.fresh.len();
        score_many(&self.table, view.codes.view(), &self.fresh, &mut self.scores[..n]);
        self.stats.code_distances += n as u64;
        for i in 0..n {
            if self.scores[i] < self.list.bound() {
                self.add_unread(self.scores[i], NodeId(self.fresh[i]));
            }
        }
        Ok(())
    }

    /// Takes the next step. See [`Step`] for what the driver does with the answer.
    ///
    /// # Errors
    /// [`CodesUnavailable`] where codes of neighbours cannot be read; the query is lost then.
    pub fn step(&mut self, view: &GraphView<'_>) -> Result<Step, CodesUnavailable> {
        if let Some(step) = self.rebuild_step() {
            return Ok(step);
        }
        if self.expanding.on {
            return self.step_expansion(view);
        }
        if let Some(step) = self.goes_home(view) {
            return Ok(step);
        }
        if let (true, Some(pages)) = (self.in_memory, view.pages) {
            return Ok(self.step_in_memory(view, pages));
        }
        if self.walks_in_vain(view) && !self.begin_scan(view) {
            return Ok(Step::Done);
        }
        if let Some(step) = self.scan_on(view)? {
            return Ok(step);
        }
        let window = self.window();
        if self.params.policy.barrier {
            self.step_barrier(view, window)
        } else {
            self.step_pipe(view, window)
        }
    }

    fn step_pipe(&mut self, view: &GraphView<'_>, window: usize) -> Result<Step, CodesUnavailable> {
        let unread = self.next_unread(window);
        self.adapt_width(unread.unwrap_or(window));
        let next = self.list.first_at_hand(window);
        let in_turn = match self.params.policy.issue {
            Issue::Fill => true,
            Issue::OneByOne => next.is_none() || self.explored_last,
            Issue::Informed => next.is_none(),
        };
        let may_issue = self.in_flight.len() < usize::from(self.width) && in_turn;
        let ahead = usize::from(self.params.policy.ahead);
        let here = unread.filter(|_| may_issue);
        let here = here.and_then(|nearest| self.nearest_here(view, nearest, window, ahead));
        if let Some(i) = here {
            self.explored_last = false;
            return Ok(self.issue(view, i));
        }
        if let Some(i) = next {
            self.explored_last = true;
            self.explore(view, i)?;
            return Ok(Step::Explored);
        }
        if let (Some(i), true) = (unread, self.in_flight.is_empty()) {
            return Ok(self.elsewhere(view, i));
        }
        Ok(self.idle(view, window, unread))
    }

    /// Goes on where the entry at `index` can be read.
    fn elsewhere(&self, view: &GraphView<'_>, index: usize) -> Step {
        Step::Elsewhere(view.layout.page_of(self.list.entries()[index].node))
    }

    /// How much of the list is explored where its records are at hand.
    fn window(&self) -> usize {
        if self.among.plan == AllowPlan::All { self.params.window() } else { self.list.capacity() }
    }

    /// Index of the nearest unread entry that is worth a read.
    fn next_unread(&mut self, window: usize) -> Option<usize> {
        let nearest = match self.among.plan {
            AllowPlan::Walk => self.next_of_walk()?,
            AllowPlan::All | AllowPlan::Scan => self.list.first_unread(window)?,
        };
        self.is_worth_reading(nearest).then_some(nearest)
    }

    /// Whether the entry at `index` is unread and worth a read.
    pub(super) fn is_worth_reading(&self, index: usize) -> bool {
        let entry = &self.list.entries()[index];
        let near_enough = match (self.reach, self.among.plan) {
            (Some(reach), _) => entry.distance <= reach,
            (None, AllowPlan::Walk) => true,
            // Until the errors of codes are known, no farther than without knowing them.
            (None, plan) => {
                let short = self.hits.as_slice().len() < self.params.k;
                index < self.list_to_read() || plan == AllowPlan::Scan && short
            }
        };
        let passed_over = self.among.plan == AllowPlan::Walk && index >= self.among.near;
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
        if self.filling {
            // All of a round is chosen among the nearest at its beginning.
            let ahead = usize::from(self.params.policy.ahead).saturating_sub(self.in_flight.len());
            let room = self.in_flight.len() < usize::from(self.width);
            let here = unread.filter(|_| room);
            let here = here.and_then(|nearest| self.nearest_here(view, nearest, window, ahead));
            if let Some(i) = here {
                return Ok(self.issue(view, i));
            }
            self.filling = false;
        }
        if !self.in_flight.is_empty() {
            return Ok(Step::Wait);
        }
        if let Some(i) = self.list.first_at_hand(window) {
            self.explore(view, i)?;
            return Ok(Step::Explored);
        }
        let Some(nearest) = unread else { return Ok(self.idle(view, window, unread)) };
        self.filling = true;
        let ahead = usize::from(self.params.policy.ahead);
        if self.nearest_here(view, nearest, window, ahead).is_none() {
            return Ok(self.elsewhere(view, nearest));
        }
        self.step_barrier(view, window)
    }

    fn idle(&mut self, view: &GraphView<'_>, window: usize, unread: Option<usize>) -> Step {
        let reach = self.reach.unwrap_or(f32::INFINITY);
        let waits = |c: &Candidate| c.progress == CandidateProgress::Issued && c.distance <= reach;
        let expects = || self.list.entries().iter().take(window).any(waits);
        if !self.in_flight.is_empty() && (unread.is_some() || expects()) {
            Step::Wait
        } else if self.goes_farther(view) {
            Step::Explored
        } else {
            Step::Done
        }
    }

    /// Asks for the page of the entry at `index`, or joins a read of it under way.
    fn issue(&mut self, view: &GraphView<'_>, index: usize) -> Step {
        self.list.set_progress(index, CandidateProgress::Issued);
        let node = self.list.entries()[index].node;
        let page = view.layout.page_of(node);
        if self.in_flight.iter().any(|f| f.page == page) {
            return Step::Explored;
        }
        self.in_flight.push(InFlight { page, node });
        self.stats.reads += 1;
        Step::Read(page)
    }

    /// Widens the pipeline as its [`Width`] says. `found` approximates how many of the nearest
    /// nodes are found: the position of the nearest candidate whose read was not issued.
    fn adapt_width(&mut self, found: usize) {
        match &self.params.policy.width {
            Width::Fixed(_) => return,
            Width::Dynamic { max, converge_at, keep_ratio, .. } => {
                if !self.converging {
                    self.converging = found >= usize::from(*converge_at);
                } else if self.finished > 0 {
                    let ratio = self.finished_in_list as f32 / self.finished as f32;
                    if ratio >= *keep_ratio {
                        self.width = (self.width + 1).min(*max);
                    }
                    self.finished = 0;
                    self.finished_in_list = 0;
                }
            }
            Width::Table(table) => {
                let reached = table.iter().rev().find(|&&(at, _)| found >= usize::from(at));
                self.width = reached.map_or(self.width, |&(_, w)| w);
            }
        }
        self.stats.width_max = self.stats.width_max.max(u64::from(self.width));
    }

    /// Scores the neighbours of the entry at `index`, which is at hand.
    pub(super) fn explore(
        &mut self,
        view: &GraphView<'_>,
        index: usize,
    ) -> Result<(), CodesUnavailable> {
        let entry = self.list.entries()[index].stash;
        self.list.set_progress(index, CandidateProgress::Explored);
        self.list.set_stash(index, NO_STASH);
        self.stats.hops += 1;
        self.fresh.clear();
        for &id in self.stash.get(entry) {
            if id >= view.node_slots || self.params.without.covers(view.layout, NodeId(id)) {
                continue;
            }
            match self.visited.insert(id) {
                Seen::New => self.fresh.push(id),
                Seen::Before => {}
                Seen::Unknown => self.fresh.push(id),
            }
        }
        self.stash.release(entry);
        if self.visited.is_full() {
            self.drop_known(view);
        }
        self.score_fresh(view)
    }

    /// Takes nodes out of `fresh` that stand in the list or lie in a page that was read: what
    /// the visited set would have said had it room.
    fn drop_known(&mut self, view: &GraphView<'_>) {
        let (list, read_for) = (&self.list, &self.read_for);
        let packed = self.params.policy.packed;
        self.fresh.retain(|&id| {
            let page = view.layout.page_of(NodeId(id));
            let known = |n: &NodeId| n.0 == id || packed && view.layout.page_of(*n) == page;
            !read_for.iter().any(known) && !list.entries().iter().any(|c| c.node.0 == id)
        });
    }

    /// The hits so far, nearest first; at least `k` where so many exist once the search is done.
    pub fn hits(&self) -> &[Hit] {
        self.hits.as_slice()
    }

    /// Takes up to `n` nearest hits that were not taken before.
    pub fn take_hits(&mut self, n: usize, out: &mut Vec<Hit>) {
        for hit in self.hits.as_mut_slice().iter_mut().filter(|h| !h.returned).take(n) {
            hit.returned = true;
            out.push(*hit);
        }
    }

    /// What the query has cost so far. Times are zero: the driver fills them in.
    pub fn stats(&self) -> SearchStats {
        SearchStats { cut_short: u64::from(self.is_cut_short()), ..self.stats }
    }

    pub(super) fn stats_mut(&mut self) -> &mut SearchStats {
        &mut self.stats
    }

    /// The parameters in force.
    pub fn params(&self) -> &SearchParams {
        &self.params
    }

    pub(super) fn mark_visited(&mut self, node: u32) {
        self.visited.insert(node);
    }
}
