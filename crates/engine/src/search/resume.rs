//! Going on with a search: for further results, or from a state that was exported.

use super::allow_list::AllowPlan;
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
        if std::mem::take(&mut self.in_memory) {
            self.table.fill(view.codebook, &self.query, view.layout.vector_type());
        }
        self.params.k = (self.params.k + more).min(SearchParams::LIST_MAX);
        self.params.list = (self.params.list + more).min(SearchParams::LIST_MAX);
        self.filling = true;
        self.explored_last = true;
        self.reissue = self.in_flight.len();
        self.look_again();
        let plan = self.among.plan;
        self.among.make_room(&self.params, self.allowed_share(view));
        let needed = self.among.capacity(&self.params);
        if needed <= self.list.capacity() {
            return;
        }
        let spare = self.params.reserve.max(more);
        let capacity = needed + spare;
        self.list.grow(capacity);
        self.hits.grow(self.params.list + spare);
        self.stash.grow(capacity + 1);
        if plan == AllowPlan::Scan {
            self.among.next = 0;
            return;
        }
        self.among.bound = f32::INFINITY;
        self.visited.clear();
        self.rebuild_pages.clear();
        self.rebuild_issued = 0;
        for i in 0..self.list.entries().len() {
            let c = self.list.entries()[i];
            self.visited.insert(c.node.0);
            if c.progress == CandidateProgress::Explored {
                self.list.set_progress(i, CandidateProgress::AtHand);
                self.rebuild_pages.push(view.layout.page_of(c.node));
            }
        }
        self.rebuild_pages.sort_unstable();
        self.rebuild_pages.dedup();
    }

    /// After an import: asks again for the pages behind nodes at hand, then for the reads that
    /// were under way, and waits for the former.
    pub(super) fn rebuild_step(&mut self) -> Option<Step> {
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
}
