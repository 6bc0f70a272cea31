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
//! reads at equal recall. Neighbours are ranked by their codes, nodes whose
//! record was seen by exact distance, and the answer is exact.
//!
//! The portable part (list, hits, reads under way, pages read, parameters, query) can be
//! exported between any two steps; the derived part (look-up table, visited set, stash) is
//! rebuilt by [`SearchState::import`] and a few page reads.

use super::candidates::{Candidate, CandidateList, Progress};
use super::hits::{Hit, HitList};
use super::params::{Issue, SearchParams, Width};
use super::stats::SearchStats;
use super::view::{CodesUnavailable, GraphView};
use super::visited::{Seen, VisitedSet};
use crate::distance::QueryDistance;
use crate::filter::AllowSet;
use crate::format::PageView;
use crate::graph::HeadScratch;
use crate::quant::{LookupTable, score_many};
use crate::types::{NodeId, PageId};

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

pub(super) const NO_STASH: u32 = u32::MAX;

/// Codes scored at once where a whole allow-set is ranked.
const SCAN_CHUNK: usize = 512;

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
    pub(super) scan: bool,
    pub(super) stats: SearchStats,
    // Derived.
    pub(super) table: LookupTable,
    pub(super) visited: VisitedSet,
    head_scratch: HeadScratch,
    seeds: Vec<(f32, u32)>,
    stash: Stash,
    fresh: Vec<u32>,
    scores: Vec<f32>,
    neighbours: Vec<u32>,
    at_page: Vec<Candidate>,
    pub(super) rebuild_pages: Vec<PageId>,
    pub(super) rebuild_issued: usize,
    pub(super) reissue: usize,
}

/// Neighbour ids of nodes whose page was read but that are not explored yet.
#[derive(Debug, Default)]
struct Stash {
    ids: Vec<u32>,
    degrees: Vec<u16>,
    free: Vec<u32>,
    max_degree: usize,
}

impl Stash {
    fn reset(&mut self, entries: usize, max_degree: usize) {
        self.max_degree = max_degree;
        if self.ids.len() < entries * max_degree {
            self.ids.resize(entries * max_degree, 0);
        }
        if self.degrees.len() < entries {
            self.degrees.resize(entries, 0);
        }
        self.free.clear();
        self.free.reserve(entries);
        self.free.extend((0..entries as u32).rev());
    }

    fn put(&mut self, neighbours: &[u32]) -> u32 {
        let entry = self.free.pop().expect("one stash entry for each place in the list");
        let at = entry as usize * self.max_degree;
        self.ids[at..at + neighbours.len()].copy_from_slice(neighbours);
        self.degrees[entry as usize] = neighbours.len() as u16;
        entry
    }

    fn get(&self, entry: u32) -> &[u32] {
        let at = entry as usize * self.max_degree;
        &self.ids[at..at + usize::from(self.degrees[entry as usize])]
    }

    fn release(&mut self, entry: u32) {
        if entry != NO_STASH {
            self.free.push(entry);
        }
    }

    fn bytes(&self) -> usize {
        self.ids.capacity() * 4 + self.degrees.capacity() * 2 + self.free.capacity() * 4
    }
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
            scan: false,
            stats: SearchStats::default(),
            table: LookupTable::new(view.codebook),
            visited: VisitedSet::new(0),
            head_scratch: HeadScratch::default(),
            seeds: Vec::new(),
            stash: Stash::default(),
            fresh: Vec::new(),
            scores: Vec::new(),
            neighbours: Vec::new(),
            at_page: Vec::new(),
            rebuild_pages: Vec::new(),
            rebuild_issued: 0,
            reissue: 0,
        }
    }

    /// Bytes of memory held by this state.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
            + self.visited.bytes()
            + self.stash.bytes()
            + self.list.capacity() * size_of::<Candidate>()
            + self.hits.capacity() * size_of::<Hit>()
            + self.query.capacity()
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
        let scan = allow.as_ref().is_some_and(|a| scan_pays(a, view.node_slots));
        self.begin_with(view, query, params, allow, scan)
    }

    fn begin_with(
        &mut self,
        view: &GraphView<'_>,
        query: &[u8],
        params: &SearchParams,
        allow: Option<Arc<AllowSet>>,
        scan: bool,
    ) -> Result<(), CodesUnavailable> {
        self.query.clear();
        self.query.extend_from_slice(query);
        self.params.clone_from(params);
        self.scan = scan;
        let capacity = match &allow {
            None => params.list + params.reserve,
            Some(_) if scan => params.list.max(4 * params.k),
            Some(a) => filtered_capacity(params.list, a, view.node_slots),
        };
        self.allow = allow;
        self.reset(view, capacity);
        self.table.fill(view.codebook, &self.query, view.layout.vector_type());
        if self.scan { self.seed_allowed(view) } else { self.seed_from_head(view) }
    }

    /// As [`begin`](Self::begin), with the plan for the allow-set chosen by the test.
    #[cfg(test)]
    pub(super) fn begin_filtered(
        &mut self,
        view: &GraphView<'_>,
        query: &[u8],
        params: &SearchParams,
        allow: Arc<AllowSet>,
        scan: bool,
    ) -> Result<(), CodesUnavailable> {
        self.begin_with(view, query, params, Some(allow), scan)
    }

    /// Whether an imported or extended state still waits for pages that it reads once more.
    #[cfg(test)]
    pub(super) fn is_rebuilding(&self) -> bool {
        !self.rebuild_pages.is_empty()
    }

    /// Empties everything that belongs to a query, and makes room for a list of `capacity`.
    pub(super) fn reset(&mut self, view: &GraphView<'_>, capacity: usize) {
        let degree = view.layout.max_degree();
        self.list.reset(capacity);
        self.hits.reset(capacity.max(self.params.k));
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
        self.stats = SearchStats { width_max: u64::from(self.width), ..Default::default() };
        let expected = (capacity * degree * 3 / 4).clamp(2048, 1 << 18);
        if self.visited.capacity() < expected {
            self.visited = VisitedSet::new(expected);
        } else {
            self.visited.clear();
        }
        self.stash.reset(capacity + 1, degree);
        self.fresh.clear();
        self.fresh.reserve(degree.max(SCAN_CHUNK));
        self.scores.resize(degree.max(SCAN_CHUNK).max(self.params.head_list), 0.0);
        self.neighbours.reserve(degree);
        self.at_page.reserve(view.layout.records_per_page());
        self.seeds.reserve(self.params.head_list);
        self.rebuild_pages.clear();
        self.rebuild_issued = 0;
        self.reissue = 0;
    }

    fn seed_from_head(&mut self, view: &GraphView<'_>) -> Result<(), CodesUnavailable> {
        self.seeds.clear();
        match view.head {
            // While codes stream in, scattered head nodes would each cost a read of their own.
            Some(head) if self.params.policy.head && view.codes.is_resident() => {
                let codes = view.codes.view();
                let list = self.params.head_list;
                head.search(&mut self.head_scratch, &self.table, codes, list, &mut self.seeds);
                self.stats.code_distances += self.head_scratch.scored() as u64;
            }
            _ => {
                view.codes.ensure(&[view.entry.0])?;
                let score = &mut self.scores[..1];
                score_many(&self.table, view.codes.view(), &[view.entry.0], score);
                self.stats.code_distances += 1;
                self.seeds.push((self.scores[0], view.entry.0));
            }
        }
        for i in 0..self.seeds.len() {
            let (distance, node) = self.seeds[i];
            if self.visited.insert(node) == Seen::New {
                self.add_unread(distance, NodeId(node));
            }
        }
        Ok(())
    }

    /// Ranks every allowed node by its code; the nearest are read and nothing is traversed.
    fn seed_allowed(&mut self, view: &GraphView<'_>) -> Result<(), CodesUnavailable> {
        let allow = self.allow.clone().expect("a scan has an allow-set");
        let mut nodes = allow.iter().filter(|n| n.0 < view.node_slots);
        loop {
            self.fresh.clear();
            self.fresh.extend(nodes.by_ref().take(SCAN_CHUNK).map(|n| n.0));
            if self.fresh.is_empty() {
                return Ok(());
            }
            self.score_fresh(view)?;
        }
    }

    fn add_unread(&mut self, distance: f32, node: NodeId) {
        let allowed = self.allow.as_ref().is_none_or(|a| a.contains(node));
        let progress = Progress::Unread;
        let pushed =
            self.list.insert(Candidate { distance, node, stash: NO_STASH, progress, allowed });
        if let Some(pushed) = pushed {
            self.stash.release(pushed.stash);
        }
    }

    /// Scores the nodes in `fresh` by their codes; those near enough enter the list.
    fn score_fresh(&mut self, view: &GraphView<'_>) -> Result<(), CodesUnavailable> {
        if !view.codes.is_resident() {
            view.codes.ensure(&self.fresh)?;
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

    /// How much of the list decides whether the search is over: `list` entries, or with an
    /// allow-set as many as hold `list` allowed ones.
    fn window(&self) -> usize {
        if self.allow.is_none() || self.scan {
            return self.params.list.max(if self.scan { self.list.capacity() } else { 0 });
        }
        let mut allowed = 0;
        for (i, c) in self.list.entries().iter().enumerate() {
            allowed += usize::from(c.allowed);
            if allowed == self.params.list {
                return i + 1;
            }
        }
        self.list.capacity()
    }

    /// Takes what the search needs from a page. The page must have passed its checksum.
    pub fn receive(&mut self, view: &GraphView<'_>, page: PageId, bytes: &[u8]) {
        let records = PageView::new(view.layout, bytes);
        let first = view.layout.node(page, 0).0;
        let nodes = first..first.saturating_add(view.layout.records_per_page() as u32);
        if let Some(at) = self.rebuild_pages.iter().position(|&p| p == page) {
            self.restash(&records, nodes.clone());
            self.rebuild_pages.remove(at);
            self.rebuild_issued -= usize::from(at < self.rebuild_issued);
            return;
        }
        let Some(at) = self.in_flight.iter().position(|f| f.page == page) else { return };
        let issued_for = self.in_flight.remove(at).node;
        self.read_for.push(issued_for);
        self.take_from_list(&nodes);
        let in_list = self.at_page.iter().any(|c| c.node == issued_for);
        self.stats.reads_wasted += u64::from(!in_list);
        if self.converging {
            self.finished += 1;
            self.finished_in_list += u32::from(in_list);
        }
        let query = std::mem::take(&mut self.query);
        let distance = QueryDistance::new(view.metric, view.layout.vector_type(), &query);
        let mut slots = records.occupied();
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let node = NodeId(first + slot as u32);
            let known = self.at_page.iter().position(|c| c.node == node);
            let wanted = node == issued_for
                || known.is_some_and(|i| self.at_page[i].progress == Progress::Issued);
            if !self.params.policy.packed && !wanted {
                continue;
            }
            if !self.params.policy.packed && node != issued_for {
                self.read_for.push(node);
            }
            let exact = distance.distance(records.vector(slot));
            self.stats.exact_distances += 1;
            let allowed = self.allow.as_ref().is_none_or(|a| a.contains(node));
            if allowed {
                let row = records.row_id(slot);
                self.hits.insert(Hit { distance: exact, row, node, returned: false });
            }
            if known.is_none() {
                self.visited.insert(node.0);
                if self.scan || exact >= self.list.bound() {
                    continue;
                }
            }
            self.keep(
                &records,
                slot,
                Candidate {
                    distance: exact,
                    node,
                    stash: NO_STASH,
                    progress: Progress::AtHand,
                    allowed,
                },
            );
        }
        self.query = query;
    }

    /// Moves the list's entries of these nodes to `at_page`.
    fn take_from_list(&mut self, nodes: &std::ops::Range<u32>) {
        self.at_page.clear();
        // Without packing, a record that was not asked for is not used.
        let packed = self.params.policy.packed;
        let on_page = |c: &&Candidate| {
            nodes.contains(&c.node.0)
                && (c.progress == Progress::Issued || packed && c.progress == Progress::Unread)
        };
        self.at_page.extend(self.list.entries().iter().filter(on_page));
        for i in 0..self.at_page.len() {
            let c = self.at_page[i];
            self.list.remove(c.node, c.distance).expect("copied from the list just now");
        }
    }

    /// Puts a record that was read into the list, with its neighbours at hand.
    fn keep(&mut self, records: &PageView<'_>, slot: usize, mut candidate: Candidate) {
        if self.scan {
            candidate.progress = Progress::Explored;
        } else {
            self.neighbours.clear();
            records.neighbours_into(slot, &mut self.neighbours);
            candidate.stash = self.stash.put(&self.neighbours);
        }
        if let Some(pushed) = self.list.insert(candidate) {
            self.stash.release(pushed.stash);
        }
    }

    /// Refills the stash of nodes that were at hand before the state was exported, or explored
    /// before it was extended; in the latter case the list of hits may have been too short for
    /// them.
    fn restash(&mut self, records: &PageView<'_>, nodes: std::ops::Range<u32>) {
        for i in 0..self.list.entries().len() {
            let c = self.list.entries()[i];
            if c.progress == Progress::AtHand && c.stash == NO_STASH && nodes.contains(&c.node.0) {
                self.neighbours.clear();
                let slot = (c.node.0 - nodes.start) as usize;
                if c.allowed {
                    let (distance, row, node) = (c.distance, records.row_id(slot), c.node);
                    self.hits.insert(Hit { distance, row, node, returned: false });
                }
                records.neighbours_into(slot, &mut self.neighbours);
                let entry = self.stash.put(&self.neighbours);
                self.list.set_stash(i, entry);
            }
        }
    }

    /// Takes the next step. See [`Step`] for what the driver does with the answer.
    ///
    /// # Errors
    /// [`CodesUnavailable`] where codes of neighbours cannot be read; the query is lost then.
    pub fn step(&mut self, view: &GraphView<'_>) -> Result<Step, CodesUnavailable> {
        if let Some(step) = self.rebuild_step() {
            return Ok(step);
        }
        let window = self.window();
        if self.params.policy.barrier {
            self.step_barrier(view, window)
        } else {
            self.step_pipe(view, window)
        }
    }

    /// After an import: asks again for the pages behind nodes at hand, then for the reads that
    /// were under way, and waits for the former.
    fn rebuild_step(&mut self) -> Option<Step> {
        if self.rebuild_issued < self.rebuild_pages.len() {
            self.rebuild_issued += 1;
            self.stats.reads += 1;
            return Some(Step::Read(self.rebuild_pages[self.rebuild_issued - 1]));
        }
        if self.reissue > 0 {
            let page = self.in_flight[self.in_flight.len() - self.reissue].page;
            self.reissue -= 1;
            self.stats.reads += 1;
            return Some(Step::Read(page));
        }
        (!self.rebuild_pages.is_empty()).then_some(Step::Wait)
    }

    fn step_pipe(&mut self, view: &GraphView<'_>, window: usize) -> Result<Step, CodesUnavailable> {
        let unread = self.list.first_unread(window);
        self.adapt_width(unread.unwrap_or(window));
        let next = self.list.first_at_hand(window);
        let may_issue = self.in_flight.len() < usize::from(self.width)
            && (next.is_none() || self.explored_last || self.params.policy.issue == Issue::Fill);
        if may_issue && let Some(i) = unread {
            self.explored_last = false;
            return Ok(self.issue(view, i));
        }
        if let Some(i) = next {
            self.explored_last = true;
            self.explore(view, i)?;
            return Ok(Step::Explored);
        }
        Ok(self.idle(window))
    }

    fn step_barrier(
        &mut self,
        view: &GraphView<'_>,
        window: usize,
    ) -> Result<Step, CodesUnavailable> {
        let unread = self.list.first_unread(window);
        if self.filling {
            if self.in_flight.len() < usize::from(self.width)
                && let Some(i) = unread
            {
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
        if unread.is_none() {
            return Ok(self.idle(window));
        }
        self.filling = true;
        self.step_barrier(view, window)
    }

    fn idle(&self, window: usize) -> Step {
        let waits = |c: &Candidate| matches!(c.progress, Progress::Unread | Progress::Issued);
        let waiting =
            !self.in_flight.is_empty() && self.list.entries().iter().take(window).any(waits);
        if waiting { Step::Wait } else { Step::Done }
    }

    /// Asks for the page of the entry at `index`, or joins a read of it under way.
    fn issue(&mut self, view: &GraphView<'_>, index: usize) -> Step {
        self.list.set_progress(index, Progress::Issued);
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
    fn explore(&mut self, view: &GraphView<'_>, index: usize) -> Result<(), CodesUnavailable> {
        let entry = self.list.entries()[index].stash;
        self.list.set_progress(index, Progress::Explored);
        self.list.set_stash(index, NO_STASH);
        self.stats.hops += 1;
        self.fresh.clear();
        for &id in self.stash.get(entry) {
            if id >= view.node_slots {
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

    /// Goes on for `more` further results: the list grows by as much, and the search continues
    /// from what it knows; reads whose answer it did not wait for are issued again. Beyond the reserve of [`SearchParams::reserve`] what was turned away
    /// is missing, so the explored nodes are read and scored again.
    pub fn extend(&mut self, view: &GraphView<'_>, more: usize) {
        self.params.k = (self.params.k + more).min(SearchParams::LIST_MAX);
        self.params.list = (self.params.list + more).min(SearchParams::LIST_MAX);
        self.filling = true;
        self.explored_last = true;
        self.reissue = self.in_flight.len();
        if self.params.list <= self.list.capacity() {
            return;
        }
        let capacity = self.params.list + self.params.reserve.max(more);
        self.list.grow(capacity);
        self.hits.grow(capacity);
        self.regrow_stash(view, capacity);
        self.visited.clear();
        self.rebuild_pages.clear();
        self.rebuild_issued = 0;
        for i in 0..self.list.entries().len() {
            let c = self.list.entries()[i];
            self.visited.insert(c.node.0);
            if c.progress == Progress::Explored {
                self.list.set_progress(i, Progress::AtHand);
                self.rebuild_pages.push(view.layout.page_of(c.node));
            }
        }
        self.rebuild_pages.sort_unstable();
        self.rebuild_pages.dedup();
    }

    fn regrow_stash(&mut self, view: &GraphView<'_>, capacity: usize) {
        let had = self.stash.degrees.len() as u32;
        let entries = (capacity + 1) as u32;
        if entries > had {
            self.stash.ids.resize(entries as usize * view.layout.max_degree(), 0);
            self.stash.degrees.resize(entries as usize, 0);
            self.stash.free.extend(had..entries);
        }
    }

    /// What the query has cost so far. Times are zero: the driver fills them in.
    pub fn stats(&self) -> SearchStats {
        self.stats
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

/// Whether ranking all allowed nodes by code is cheaper than walking the graph past the others.
fn scan_pays(allow: &AllowSet, node_slots: u32) -> bool {
    allow.len() <= u64::from(node_slots / 20).max(10_000)
}

/// Capacity of the list where only allowed nodes count: enough to hold `list` of them.
fn filtered_capacity(list: usize, allow: &AllowSet, node_slots: u32) -> usize {
    let share = allow.len() as f64 / f64::from(node_slots).max(1.0);
    ((list as f64 / share.max(1e-6)) * 1.5).clamp(list as f64, 8192.0) as usize
}
