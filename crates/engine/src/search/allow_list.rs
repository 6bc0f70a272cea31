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

use super::allowed::{AllowPlan, AllowedNodes, SCAN_CHUNK, SCANNED};
use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::state::{SearchState, Step};
use super::view::{CodesUnavailable, GraphView};
use super::width::Width;
use crate::quant::score_many;
use crate::types::NodeId;

/// Ranked codes that are compared with the list's bound at once.
const AT_ONCE: usize = 32;
/// Nodes whose distance is known before the walk doubts that it is among allowed ones.
const SEEN_ENOUGH: u32 = 64;
/// A neighbourhood that holds this many times fewer allowed nodes than their share of all is none
/// to search in.
const DEPARTS: f32 = 4.0;

impl SearchState {
    /// Ranks a chunk of the allowed nodes, or says where to go on with it; `None` where all are
    /// ranked.
    pub(super) fn scan_on(
        &mut self,
        view: &GraphView<'_>,
    ) -> Result<Option<Step>, CodesUnavailable> {
        if self.portable.among.next == SCANNED {
            return Ok(None);
        }
        let Some(next) = self.past_missing(view, NodeId(self.portable.among.next)) else {
            self.portable.among.next = SCANNED;
            self.widen_for_best();
            return Ok(Some(Step::Explored));
        };
        self.portable.among.next = next.0;
        let Some(end) = view.nodes_here_until(next) else {
            // A walk that became a scan may have reads under way.
            let page = view.layout.page_of(NodeId(self.portable.among.next));
            let away = self.portable.in_flight.is_empty();
            return Ok(Some(if away { Step::Elsewhere(page) } else { Step::Wait }));
        };
        let end = self.until_missing(view, next, end);
        let allow = self.derived.allow.clone().expect("a scan has an allow-set");
        self.derived.fresh.clear();
        allow.take_from(NodeId(self.portable.among.next), SCAN_CHUNK, &mut self.derived.fresh);
        while self.derived.fresh.last().is_some_and(|id| *id >= end) {
            self.derived.fresh.pop();
        }
        self.portable.among.next = match self.derived.fresh.last() {
            Some(last) if self.derived.fresh.len() == SCAN_CHUNK && last + 1 < view.node_slots => {
                last + 1
            }
            _ if end < view.node_slots => end,
            _ => SCANNED,
        };
        if self.portable.among.next == SCANNED {
            self.widen_for_best();
        }
        if !view.codes.is_resident() {
            view.codes.ensure(&self.derived.fresh)?;
        }
        let n = self.derived.fresh.len();
        score_many(
            &self.derived.table,
            view.codes.view(),
            &self.derived.fresh,
            &mut self.derived.scores[..n],
        );
        self.portable.stats.code_distances += n as u64;
        self.portable.stats.codes_ranked += n as u64;
        for first in (0..n).step_by(AT_ONCE) {
            let some = first..n.min(first + AT_ONCE);
            let bound = self.portable.list.bound();
            // Nearly none is near enough, and looking at all of them takes no branch.
            if self.derived.scores[some.clone()]
                .iter()
                .fold(true, |far, score| far & (*score >= bound))
            {
                continue;
            }
            for i in some {
                if self.derived.scores[i] < self.portable.list.bound() {
                    self.add_ranked(view, self.derived.scores[i], NodeId(self.derived.fresh[i]));
                }
            }
        }
        Ok(Some(Step::Explored))
    }

    /// The `k` best of a ranking are read in any case, so that they need not wait for each other.
    fn widen_for_best(&mut self) {
        if let Width::Dynamic { max, .. } = self.portable.params.policy.width {
            let best = u16::try_from(self.portable.params.k).unwrap_or(u16::MAX);
            self.portable.width = self.portable.width.max(best.min(max));
            self.portable.stats.width_max =
                self.portable.stats.width_max.max(u64::from(self.portable.width));
        }
    }

    /// Adds an allowed node, unless it was read before the scan began or goes on.
    fn add_ranked(&mut self, view: &GraphView<'_>, distance: f32, node: NodeId) {
        let packed = self.portable.params.policy.packed;
        let page = view.layout.page_of(node);
        let has = |other: &NodeId| *other == node || packed && view.layout.page_of(*other) == page;
        let known =
            self.portable.read_for.iter().any(has) || self.portable.list.contains(node, distance);
        if known || view.is_deleted(node) {
            return;
        }
        let reading = self.portable.in_flight.iter().any(|read| read.page == page);
        let progress = if reading { CandidateProgress::Issued } else { CandidateProgress::Unread };
        let ranked = Candidate { distance, node, stash: NO_STASH, progress, allowed: true };
        if let Some(pushed) = self.portable.list.insert(ranked) {
            self.derived.stash.release(pushed.stash);
        }
    }

    /// Whether a walk has no use for a node: it is not allowed, and others are nearer.
    pub(super) fn is_turned_away(&self, distance: f32, allowed: bool) -> bool {
        !allowed
            && self.portable.among.plan == AllowPlan::Walk
            && distance >= self.portable.among.bound
    }

    /// After an entry of a walk came into the list: nodes that are not allowed give way where
    /// they stand too far behind.
    pub(super) fn keep_near(&mut self) {
        self.keep_in_range();
        let most = self.portable.among.widest;
        if self.portable.among.plan != AllowPlan::Walk || self.portable.list.entries().len() <= most
        {
            return;
        }
        let last = self.portable.list.entries()[most - 1].distance;
        self.portable.among.bound = self.portable.among.bound.min(last);
        let first_behind = self.portable.list.entries()[most];
        if !first_behind.allowed && first_behind.progress == CandidateProgress::Unread {
            self.portable.list.remove_at(most);
        }
    }

    /// Index of the nearest entry that a walk would read.
    pub(super) fn next_of_walk(&mut self) -> Option<usize> {
        let near = self.portable.list.first_unread(self.portable.among.near);
        let wanted = self.portable.list.first_wanted();
        near.into_iter().chain(wanted).min()
    }

    /// Notes what a page has shown.
    pub(super) fn note_seen(&mut self, allowed: bool) {
        self.portable.among.seen += 1;
        self.portable.among.seen_allowed += u32::from(allowed);
    }

    /// Whether far fewer of the nodes seen are allowed than of all, by more than chance.
    fn departs(&self, view: &GraphView<'_>) -> bool {
        let AllowedNodes { seen, seen_allowed, .. } = self.portable.among;
        let expected = self.allowed_share(view) * seen as f32 / DEPARTS;
        seen >= SEEN_ENOUGH && expected >= 4.0 && (seen_allowed as f32) < expected
    }

    pub(super) fn allowed_share(&self, view: &GraphView<'_>) -> f32 {
        let allowed = self.derived.allow.as_ref().map_or(0, |allow| allow.len());
        (allowed as f64 / f64::from(view.node_slots.max(1))) as f32
    }

    /// Whether a walk is to be a scan now.
    pub(super) fn walks_in_vain(&self, view: &GraphView<'_>) -> bool {
        self.portable.among.plan == AllowPlan::Walk && self.departs(view)
    }

    /// What a walk does that has read all it wanted: it ends, or looks farther, or begins anew as
    /// a scan. Whether it goes on.
    pub(super) fn goes_farther(&mut self, view: &GraphView<'_>) -> bool {
        if self.portable.among.plan != AllowPlan::Walk {
            return false;
        }
        let entries = self.portable.list.entries();
        let front = &entries[..self.portable.among.near.min(entries.len())];
        let allowed = front.iter().filter(|c| c.allowed).count();
        let expected = self.allowed_share(view) * front.len() as f32 / DEPARTS;
        if self.has_enough() && allowed as f32 >= expected {
            return false;
        }
        let most = self.portable.params.widest();
        if self.portable.among.near < most {
            self.portable.among.near = (2 * self.portable.among.near).min(most);
            return true;
        }
        self.begin_scan(view)
    }

    /// Goes on as a scan, if there is a list of nodes; else the search is in vain. What has been
    /// read stays so; reads under way are waited for.
    pub(super) fn begin_scan(&mut self, view: &GraphView<'_>) -> bool {
        if self.derived.allow.as_ref().is_none_or(|allow| !allow.is_listed()) {
            self.portable.stats.in_vain = 1;
            return false;
        }
        self.portable.among.plan = AllowPlan::Scan;
        self.portable.among.next = 0;
        self.portable.among.make_room(&self.portable.params, 1.0);
        let capacity = self.portable.among.capacity(&self.portable.params);
        self.portable.list.reset(capacity);
        self.derived.stash.reset(capacity + 1, view.list_bound());
        self.derived.rebuild_pages.clear();
        self.derived.rebuild_issued = 0;
        self.look_again();
        true
    }
}
