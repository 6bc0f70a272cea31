//! Searching with an allow-list: two plans, and the change from one to the other.
//!
//! [`AllowPlan::Walk`] goes through the graph. Near the query it reads whatever is nearest, so that
//! it stays connected; farther away it reads allowed nodes only. What lies in a page that was read
//! anyway is explored in either case. [`AllowPlan::Scan`] ranks all allowed nodes by their codes, a
//! chunk for each step, and reads the best of them; nothing is traversed.
//!
//! Which one costs less depends on how many nodes are allowed and on what a read costs in codes,
//! [`GraphView::codes_per_read`]. A walk where the neighbourhood of the query holds far fewer
//! allowed nodes than their share of all would end among nodes that are not the nearest, or
//! nowhere: it looks farther, and becomes a scan where that does not help.
//!
//! Where a graph is cut over several servers, each knows which of its own nodes are allowed. A walk
//! takes others for allowed until it comes to where they are known. A scan ranks the nodes of each
//! server there, going from one to the next in the order of nodes, and reads when all are ranked: it
//! gives what it would on one server with everything.

use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::params::{SearchParams, Width};
use super::state::{SearchState, Step};
use super::view::{CodesUnavailable, GraphView};
use crate::filter::AllowSet;
use crate::quant::score_many;
use crate::types::NodeId;

/// What a search does about nodes that are not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowPlan {
    /// All are.
    All,
    /// See the module's description.
    Walk,
    /// See the module's description.
    Scan,
}

/// Codes scored at once where a whole allow-set is ranked.
pub(super) const SCAN_CHUNK: usize = 512;
/// Ranked codes that are compared with the list's bound at once.
const AT_ONCE: usize = 32;
/// No node is left to be ranked.
pub(super) const SCANNED: u32 = u32::MAX;
/// Longest list of a walk, unless the caller's is longer: what lies behind costs no read, but
/// time to keep it in order.
const WIDEST: usize = 4096;
/// Reads that a walk needs beyond those of a scan, as measured where a tenth to a half is allowed.
const WALK_READS: u64 = 40;
/// Nodes whose distance is known before the walk doubts that it is among allowed ones.
const SEEN_ENOUGH: u32 = 64;
/// A neighbourhood that holds this many times fewer allowed nodes than their share of all is none
/// to search in.
const DEPARTS: f32 = 4.0;

/// What a search among some nodes remembers beside its list. Part of the portable state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AllowedNodes {
    pub(super) plan: AllowPlan,
    /// The first node that is not ranked yet.
    pub(super) next: u32,
    /// Entries at the front of the list that a walk reads whether they are allowed or not.
    pub(super) near: usize,
    /// Entries of the list, beyond which a walk keeps allowed nodes only.
    pub(super) widest: usize,
    /// Nodes that are not allowed and no nearer than this are turned away.
    pub(super) bound: f32,
    /// Nodes whose exact distance is known, and those of them that are allowed.
    pub(super) seen: u32,
    pub(super) seen_allowed: u32,
}

impl AllowedNodes {
    pub(super) const fn all() -> Self {
        Self {
            plan: AllowPlan::All,
            next: SCANNED,
            near: 0,
            widest: 0,
            bound: f32::INFINITY,
            seen: 0,
            seen_allowed: 0,
        }
    }

    /// The beginning of a search by this plan, where such a share of the nodes is allowed.
    pub(super) fn new(plan: AllowPlan, params: &SearchParams, share: f32) -> Self {
        let next = if plan == AllowPlan::Scan { 0 } else { SCANNED };
        let mut restriction = Self { plan, next, ..Self::all() };
        restriction.make_room(params, share);
        restriction
    }

    /// Sets what depends on the parameters.
    pub(super) fn make_room(&mut self, params: &SearchParams, share: f32) {
        (self.near, self.widest) = match self.plan {
            AllowPlan::All => (0, params.window()),
            AllowPlan::Scan => (0, params.widest()),
            AllowPlan::Walk => {
                let wide = (params.list as f32 / share.max(1e-6)) as usize;
                (params.list, wide.min(WIDEST).max(params.widest()))
            }
        };
    }

    /// Entries that the list needs.
    pub(super) fn capacity(&self, params: &SearchParams) -> usize {
        let behind = if self.plan == AllowPlan::Walk { params.k.max(params.list / 2) } else { 0 };
        self.widest + behind
    }
}

/// Whether ranking all allowed nodes by code is cheaper than walking the graph past the others,
/// where `codes_per_read` codes are ranked in the time of one page read.
pub fn scan_pays(allow: &AllowSet, codes_per_read: u32) -> bool {
    allow.is_listed() && allow.len() <= WALK_READS * u64::from(codes_per_read)
}

impl SearchState {
    /// Ranks a chunk of the allowed nodes, or says where to go on with it; `None` where all are
    /// ranked.
    pub(super) fn scan_on(
        &mut self,
        view: &GraphView<'_>,
    ) -> Result<Option<Step>, CodesUnavailable> {
        if self.among.next == SCANNED {
            return Ok(None);
        }
        let Some(next) = self.past_missing(view, NodeId(self.among.next)) else {
            self.among.next = SCANNED;
            self.widen_for_best();
            return Ok(Some(Step::Explored));
        };
        self.among.next = next.0;
        let Some(end) = view.nodes_here_until(next) else {
            // A walk that became a scan may have reads under way.
            let page = view.layout.page_of(NodeId(self.among.next));
            let away = self.in_flight.is_empty();
            return Ok(Some(if away { Step::Elsewhere(page) } else { Step::Wait }));
        };
        let end = self.until_missing(view, next, end);
        let allow = self.allow.clone().expect("a scan has an allow-set");
        self.fresh.clear();
        allow.take_from(NodeId(self.among.next), SCAN_CHUNK, &mut self.fresh);
        while self.fresh.last().is_some_and(|id| *id >= end) {
            self.fresh.pop();
        }
        self.among.next = match self.fresh.last() {
            Some(last) if self.fresh.len() == SCAN_CHUNK => last + 1,
            _ if end < view.node_slots => end,
            _ => SCANNED,
        };
        if self.among.next == SCANNED {
            self.widen_for_best();
        }
        if !view.codes.is_resident() {
            view.codes.ensure(&self.fresh)?;
        }
        let n = self.fresh.len();
        score_many(&self.table, view.codes.view(), &self.fresh, &mut self.scores[..n]);
        self.stats.code_distances += n as u64;
        self.stats.codes_ranked += n as u64;
        for first in (0..n).step_by(AT_ONCE) {
            let some = first..n.min(first + AT_ONCE);
            let bound = self.list.bound();
            // Nearly none is near enough, and looking at all of them takes no branch.
            if self.scores[some.clone()].iter().fold(true, |far, score| far & (*score >= bound)) {
                continue;
            }
            for i in some {
                if self.scores[i] < self.list.bound() {
                    self.add_ranked(view, self.scores[i], NodeId(self.fresh[i]));
                }
            }
        }
        Ok(Some(Step::Explored))
    }

    /// The `k` best of a ranking are read in any case, so that they need not wait for each other.
    fn widen_for_best(&mut self) {
        if let Width::Dynamic { max, .. } = self.params.policy.width {
            let best = u16::try_from(self.params.k).unwrap_or(u16::MAX);
            self.width = self.width.max(best.min(max));
            self.stats.width_max = self.stats.width_max.max(u64::from(self.width));
        }
    }

    /// Adds an allowed node, unless it was read before the scan began or goes on.
    fn add_ranked(&mut self, view: &GraphView<'_>, distance: f32, node: NodeId) {
        let packed = self.params.policy.packed;
        let page = view.layout.page_of(node);
        let has = |other: &NodeId| *other == node || packed && view.layout.page_of(*other) == page;
        let known = self.read_for.iter().any(has) || self.list.contains(node, distance);
        if known || view.is_deleted(node) {
            return;
        }
        let reading = self.in_flight.iter().any(|read| read.page == page);
        let progress = if reading { CandidateProgress::Issued } else { CandidateProgress::Unread };
        let ranked = Candidate { distance, node, stash: NO_STASH, progress, allowed: true };
        if let Some(pushed) = self.list.insert(ranked) {
            self.stash.release(pushed.stash);
        }
    }

    /// Whether a walk has no use for a node: it is not allowed, and others are nearer.
    pub(super) fn is_turned_away(&self, distance: f32, allowed: bool) -> bool {
        !allowed && self.among.plan == AllowPlan::Walk && distance >= self.among.bound
    }

    /// After an entry of a walk came into the list: nodes that are not allowed give way where
    /// they stand too far behind.
    pub(super) fn keep_near(&mut self) {
        self.keep_in_range();
        let most = self.among.widest;
        if self.among.plan != AllowPlan::Walk || self.list.entries().len() <= most {
            return;
        }
        let last = self.list.entries()[most - 1].distance;
        self.among.bound = self.among.bound.min(last);
        let first_behind = self.list.entries()[most];
        if !first_behind.allowed && first_behind.progress == CandidateProgress::Unread {
            self.list.remove_at(most);
        }
    }

    /// Index of the nearest entry that a walk would read.
    pub(super) fn next_of_walk(&mut self) -> Option<usize> {
        let near = self.list.first_unread(self.among.near);
        let wanted = self.list.first_wanted();
        near.into_iter().chain(wanted).min()
    }

    /// Notes what a page has shown.
    pub(super) fn note_seen(&mut self, allowed: bool) {
        self.among.seen += 1;
        self.among.seen_allowed += u32::from(allowed);
    }

    /// Whether far fewer of the nodes seen are allowed than of all, by more than chance.
    fn departs(&self, view: &GraphView<'_>) -> bool {
        let AllowedNodes { seen, seen_allowed, .. } = self.among;
        let expected = self.allowed_share(view) * seen as f32 / DEPARTS;
        seen >= SEEN_ENOUGH && expected >= 4.0 && (seen_allowed as f32) < expected
    }

    pub(super) fn allowed_share(&self, view: &GraphView<'_>) -> f32 {
        let allowed = self.allow.as_ref().map_or(0, |allow| allow.len());
        (allowed as f64 / f64::from(view.node_slots.max(1))) as f32
    }

    /// Whether a walk is to be a scan now.
    pub(super) fn walks_in_vain(&self, view: &GraphView<'_>) -> bool {
        self.among.plan == AllowPlan::Walk && self.departs(view)
    }

    /// What a walk does that has read all it wanted: it ends, or looks farther, or begins anew as
    /// a scan. Whether it goes on.
    pub(super) fn goes_farther(&mut self, view: &GraphView<'_>) -> bool {
        if self.among.plan != AllowPlan::Walk {
            return false;
        }
        let front = &self.list.entries()[..self.among.near.min(self.list.entries().len())];
        let allowed = front.iter().filter(|c| c.allowed).count();
        let expected = self.allowed_share(view) * front.len() as f32 / DEPARTS;
        if self.has_enough() && allowed as f32 >= expected {
            return false;
        }
        let most = self.params.widest();
        if self.among.near < most {
            self.among.near = (2 * self.among.near).min(most);
            return true;
        }
        self.begin_scan(view)
    }

    /// Goes on as a scan, if there is a list of nodes; else the search is in vain. What has been
    /// read stays so; reads under way are waited for.
    pub(super) fn begin_scan(&mut self, view: &GraphView<'_>) -> bool {
        if self.allow.as_ref().is_none_or(|allow| !allow.is_listed()) {
            self.stats.in_vain = 1;
            return false;
        }
        self.among.plan = AllowPlan::Scan;
        self.among.next = 0;
        self.among.make_room(&self.params, 1.0);
        let capacity = self.among.capacity(&self.params);
        self.list.reset(capacity);
        self.stash.reset(capacity + 1, view.list_bound());
        self.rebuild_pages.clear();
        self.rebuild_issued = 0;
        self.look_again();
        true
    }
}
