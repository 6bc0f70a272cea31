//! Where a search goes on: with what can be read here, or elsewhere.

use super::allowed::AllowPlan;
use super::portable_state::PortableState;
use super::state::{SearchState, Step};
use super::view::GraphView;

impl SearchState {
    /// Where a search that is to begin at home has read nothing yet and came from nowhere: to the
    /// server of its nearest entry. One that ranks has no entry; it goes through all servers anyway.
    pub(super) fn goes_home(&self, view: &GraphView<'_>) -> Option<Step> {
        let PortableState { params, stats, list, among, .. } = &self.portable;
        let begins = params.policy.home && stats.moves == 0 && among.plan != AllowPlan::Scan;
        let home = view.home.or(view.owned).filter(|_| begins)?;
        let has_read = stats.reads + stats.resident_pages > 0;
        let nearest = list.entries().first().filter(|_| !has_read)?;
        let page = view.layout.page_of(nearest.node);
        (!home.holds(page)).then_some(Step::Elsewhere(page))
    }

    /// Of the entries worth a read, the nearest that can be read here, where it is among the first
    /// `ahead` of them; `nearest` is the nearest one of all.
    pub(super) fn nearest_here(
        &self,
        view: &GraphView<'_>,
        nearest: usize,
        window: usize,
        ahead: usize,
    ) -> Option<usize> {
        if view.owned.is_none() {
            return Some(nearest);
        }
        let entries = self.portable.list.entries();
        (nearest..window.min(entries.len()))
            .filter(|&at| self.is_worth_reading(at))
            .take(ahead)
            .find(|&at| view.reads_here(entries[at].node))
    }

    /// Goes on where the entry at `index` can be read.
    pub(super) fn elsewhere(&self, view: &GraphView<'_>, index: usize) -> Step {
        Step::Elsewhere(view.layout.page_of(self.portable.list.entries()[index].node))
    }
}
