//! Going on with a search: for further results, or from a state that was exported.

use super::allowed::AllowPlan;
use super::candidates::CandidateProgress;
use super::params::SearchParams;
use super::state::{SearchState, Step};
use super::view::GraphView;

impl SearchState {
    /// Goes on for `more` further results: the list grows by as much, and the search continues
    /// from what it knows; reads whose answer it did not wait for are issued again. Beyond the
    /// reserve of [`SearchParams::reserve`] what was turned away is missing, so the explored
    /// nodes are read and scored again.
    pub fn extend(&mut self, view: &GraphView<'_>, more: usize) {
        if std::mem::take(&mut self.derived.in_memory) {
            self.derived.table.fill(view.codebook, &self.portable.query, view.layout.vector_type());
        }
        self.portable.params.k = (self.portable.params.k + more).min(SearchParams::LIST_MAX);
        self.portable.params.list = (self.portable.params.list + more).min(SearchParams::LIST_MAX);
        self.portable.filling = true;
        self.portable.explored_last = true;
        self.derived.reissue = self.portable.in_flight.len();
        self.look_again();
        let plan = self.portable.among.plan;
        self.portable.among.make_room(&self.portable.params, self.allowed_share(view));
        let needed = self.portable.among.capacity(&self.portable.params);
        if needed <= self.portable.list.capacity() {
            return;
        }
        let spare = self.portable.params.reserve.max(more);
        let capacity = needed + spare;
        self.portable.list.grow(capacity);
        self.portable.hits.grow(self.portable.params.list + spare);
        self.derived.stash.grow(capacity + 1);
        if plan == AllowPlan::Scan {
            self.portable.among.next = 0;
            return;
        }
        self.portable.among.bound = f32::INFINITY;
        self.derived.visited.clear();
        self.derived.rebuild_pages.clear();
        self.derived.rebuild_issued = 0;
        for i in 0..self.portable.list.entries().len() {
            let c = self.portable.list.entries()[i];
            self.derived.visited.insert(c.node.0);
            if c.progress == CandidateProgress::Explored {
                self.portable.list.set_progress(i, CandidateProgress::AtHand);
                self.derived.rebuild_pages.push(view.layout.page_of(c.node));
            }
        }
        self.derived.rebuild_pages.sort_unstable();
        self.derived.rebuild_pages.dedup();
    }

    /// After an import: asks again for the pages behind nodes at hand, then for the reads that
    /// were under way, and waits for the former.
    pub(super) fn rebuild_step(&mut self) -> Option<Step> {
        if self.derived.rebuild_issued < self.derived.rebuild_pages.len() {
            self.derived.rebuild_issued += 1;
            self.portable.stats.reads += 1;
            return Some(Step::Read(self.derived.rebuild_pages[self.derived.rebuild_issued - 1]));
        }
        if self.derived.reissue > 0 {
            let page =
                self.portable.in_flight[self.portable.in_flight.len() - self.derived.reissue].page;
            self.derived.reissue -= 1;
            self.portable.stats.reads += 1;
            return Some(Step::Read(page));
        }
        (!self.derived.rebuild_pages.is_empty()).then_some(Step::Wait)
    }
}
