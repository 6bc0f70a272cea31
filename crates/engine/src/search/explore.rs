//! Exploring a node: its neighbours are scored by their codes, and those near enough become candidates.

use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::state::SearchState;
use super::view::{CodesUnavailable, GraphView};
use super::visited::Seen;
use crate::quant::score_many;
use crate::types::NodeId;

impl SearchState {
    /// Scores the neighbours of the entry at `index`, which is at hand.
    pub(super) fn explore(
        &mut self,
        view: &GraphView<'_>,
        index: usize,
    ) -> Result<(), CodesUnavailable> {
        let entry = self.portable.list.entries()[index].stash;
        self.portable.list.set_progress(index, CandidateProgress::Explored);
        self.portable.list.set_stash(index, NO_STASH);
        self.portable.stats.hops += 1;
        self.derived.fresh.clear();
        for &id in self.derived.stash.get(entry) {
            if id >= view.node_slots || self.portable.params.without.covers(view.layout, NodeId(id))
            {
                continue;
            }
            match self.derived.visited.insert(id) {
                Seen::New => self.derived.fresh.push(id),
                Seen::Before => {}
                Seen::Unknown => self.derived.fresh.push(id),
            }
        }
        self.derived.stash.release(entry);
        if self.derived.visited.is_full() {
            self.drop_known(view);
        }
        self.score_fresh(view)
    }

    /// Takes nodes out of `fresh` that stand in the list or lie in a page that was read: what
    /// the visited set would have said had it room.
    fn drop_known(&mut self, view: &GraphView<'_>) {
        let (list, read_for) = (&self.portable.list, &self.portable.read_for);
        let packed = self.portable.params.policy.packed;
        self.derived.fresh.retain(|&id| {
            let page = view.layout.page_of(NodeId(id));
            let known = |n: &NodeId| n.0 == id || packed && view.layout.page_of(*n) == page;
            !read_for.iter().any(known) && !list.entries().iter().any(|c| c.node.0 == id)
        });
    }

    pub(super) fn add_unread(&mut self, distance: f32, node: NodeId) {
        if self.derived.expanding.on {
            return self.derived.expanding.meet(distance, node);
        }
        let allowed = self.derived.allow.as_ref().is_none_or(|allow| allow.may_allow(node));
        if self.is_turned_away(distance, allowed) {
            return;
        }
        let progress = CandidateProgress::Unread;
        let pushed = self.portable.list.insert(Candidate {
            distance,
            node,
            stash: NO_STASH,
            progress,
            allowed,
        });
        if let Some(pushed) = pushed {
            self.derived.stash.release(pushed.stash);
        }
        self.keep_near();
    }

    /// Scores the nodes in `fresh` by their codes; those near enough enter the list.
    pub(super) fn score_fresh(&mut self, view: &GraphView<'_>) -> Result<(), CodesUnavailable> {
        if !view.codes.is_resident() {
            self.await_codes(view)?;
        }
        let n = self.derived.fresh.len();
        score_many(
            &self.derived.table,
            view.codes.view(),
            &self.derived.fresh,
            &mut self.derived.scores[..n],
        );
        self.portable.stats.code_distances += n as u64;
        for i in 0..n {
            if self.derived.scores[i] < self.portable.list.bound() {
                self.add_unread(self.derived.scores[i], NodeId(self.derived.fresh[i]));
            }
        }
        Ok(())
    }
}
