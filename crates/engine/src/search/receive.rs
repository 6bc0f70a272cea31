//! What a search takes from a page.

use super::allow_list::AllowPlan;
use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::hits::Hit;
use super::overlay::PageRecords;
use super::state::SearchState;
use super::view::GraphView;
use crate::distance::QueryDistance;
use crate::types::{NodeId, PageId};

impl SearchState {
    /// Takes what the search needs from a page. The page must have passed its checksum.
    pub fn receive(&mut self, view: &GraphView<'_>, page: PageId, bytes: &[u8]) {
        let records = PageRecords::new(view, page, bytes);
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
                || known.is_some_and(|i| self.at_page[i].progress == CandidateProgress::Issued);
            if !self.params.policy.packed && !wanted {
                continue;
            }
            if !self.params.policy.packed && node != issued_for {
                self.read_for.push(node);
            }
            let exact = distance.distance(records.vector(slot));
            self.stats.exact_distances += 1;
            let row = || records.row_id(slot);
            let allowed = self.allow.as_ref().is_none_or(|allow| allow.allows(node, row));
            self.note_seen(allowed);
            let allowed = allowed && !view.is_deleted(node);
            if allowed {
                self.add_hit(Hit { distance: exact, row: row(), node, returned: false });
            }
            if let Some(i) = known
                && self.at_page[i].progress <= CandidateProgress::Issued
            {
                self.coding_error.add(exact - self.at_page[i].distance);
            }
            if known.is_none() {
                self.visited.insert(node.0);
                let scan = self.among.plan == AllowPlan::Scan;
                if scan || exact >= self.list.bound() || self.is_turned_away(exact, allowed) {
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
                    progress: CandidateProgress::AtHand,
                    allowed,
                },
            );
        }
        self.query = query;
        self.look_again();
    }

    /// Moves the list's entries of these nodes to `at_page`.
    fn take_from_list(&mut self, nodes: &std::ops::Range<u32>) {
        self.at_page.clear();
        // Without packing, a record that was not asked for is not used.
        let packed = self.params.policy.packed;
        let on_page = |c: &&Candidate| {
            nodes.contains(&c.node.0)
                && (c.progress == CandidateProgress::Issued
                    || packed && c.progress == CandidateProgress::Unread)
        };
        self.at_page.extend(self.list.entries().iter().filter(on_page));
        for i in 0..self.at_page.len() {
            let c = self.at_page[i];
            self.list.remove(c.node, c.distance).expect("copied from the list just now");
        }
    }

    /// Puts a record that was read into the list, with its neighbours at hand.
    fn keep(&mut self, records: &PageRecords<'_>, slot: usize, mut candidate: Candidate) {
        if self.among.plan == AllowPlan::Scan {
            candidate.progress = CandidateProgress::Explored;
        } else {
            self.neighbours.clear();
            records.neighbours_into(slot, &mut self.neighbours);
            candidate.stash = self.stash.put(&self.neighbours);
        }
        if let Some(pushed) = self.list.insert(candidate) {
            self.stash.release(pushed.stash);
        }
        self.keep_near();
    }

    /// Refills the stash of nodes that were at hand before the state was exported, or explored
    /// before it was extended; in the latter case the list of hits may have been too short for
    /// them.
    fn restash(&mut self, records: &PageRecords<'_>, nodes: std::ops::Range<u32>) {
        for i in 0..self.list.entries().len() {
            let c = self.list.entries()[i];
            if c.progress == CandidateProgress::AtHand
                && c.stash == NO_STASH
                && nodes.contains(&c.node.0)
            {
                self.neighbours.clear();
                let slot = (c.node.0 - nodes.start) as usize;
                if c.allowed && self.params.within.contains(c.distance) {
                    let (distance, row, node) = (c.distance, records.row_id(slot), c.node);
                    self.hits.insert(Hit { distance, row, node, returned: false });
                }
                records.neighbours_into(slot, &mut self.neighbours);
                let entry = self.stash.put(&self.neighbours);
                self.list.set_stash(i, entry);
            }
        }
    }
}
