//! What a search takes from a page.

use super::allowed::AllowPlan;
use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::frontier::Expanded;
use super::hits::Hit;
use super::page_records::PageRecords;
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
        if let Some(at) = self.derived.rebuild_pages.iter().position(|&p| p == page) {
            self.restash(&records, nodes.clone());
            self.derived.rebuild_pages.remove(at);
            self.derived.rebuild_issued -= usize::from(at < self.derived.rebuild_issued);
            return;
        }
        let Some(at) = self.portable.in_flight.iter().position(|f| f.page == page) else { return };
        let issued_for = self.portable.in_flight.remove(at).node;
        self.portable.read_for.push(issued_for);
        self.take_from_list(&nodes);
        let in_list = self.derived.at_page.iter().any(|c| c.node == issued_for);
        self.portable.stats.reads_wasted += u64::from(!in_list);
        if self.portable.converging {
            self.portable.finished += 1;
            self.portable.finished_in_list += u32::from(in_list);
        }
        let query = std::mem::take(&mut self.portable.query);
        let distance = QueryDistance::new(view.metric, view.layout.vector_type(), &query);
        let mut slots = records.occupied();
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let node = NodeId(first + slot as u32);
            let known = self.derived.at_page.iter().position(|c| c.node == node);
            let wanted = node == issued_for
                || known
                    .is_some_and(|i| self.derived.at_page[i].progress == CandidateProgress::Issued);
            if !self.portable.params.policy.packed && !wanted {
                continue;
            }
            if !self.portable.params.policy.packed && node != issued_for {
                self.portable.read_for.push(node);
            }
            let exact = distance.distance(records.vector(slot));
            self.portable.stats.exact_distances += 1;
            let row = || records.row_id(slot);
            let allowed = self.derived.allow.as_ref().is_none_or(|allow| allow.allows(node, row));
            self.note_seen(allowed);
            let allowed = allowed && !view.is_deleted(node);
            if self.derived.expanding.on {
                let row = allowed.then(row);
                self.derived.expanding.read.push(Expanded { node, distance: exact, row });
            } else if allowed {
                self.add_hit(Hit { distance: exact, row: row(), node, returned: false });
            }
            if let Some(i) = known
                && self.derived.at_page[i].progress <= CandidateProgress::Issued
            {
                self.portable.coding_error.add(exact - self.derived.at_page[i].distance);
            }
            if known.is_none() {
                self.derived.visited.insert(node.0);
                let scan = self.portable.among.plan == AllowPlan::Scan;
                if scan
                    || exact >= self.portable.list.bound()
                    || self.is_turned_away(exact, allowed)
                {
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
        self.portable.query = query;
        self.look_again();
    }

    /// Moves the list's entries of these nodes to `at_page`.
    fn take_from_list(&mut self, nodes: &std::ops::Range<u32>) {
        self.derived.at_page.clear();
        // Without packing, a record that was not asked for is not used.
        let packed = self.portable.params.policy.packed;
        let on_page = |c: &&Candidate| {
            nodes.contains(&c.node.0)
                && (c.progress == CandidateProgress::Issued
                    || packed && c.progress == CandidateProgress::Unread)
        };
        self.derived.at_page.extend(self.portable.list.entries().iter().filter(on_page));
        for i in 0..self.derived.at_page.len() {
            let c = self.derived.at_page[i];
            self.portable.list.remove(c.node, c.distance).expect("copied from the list just now");
        }
    }

    /// Puts a record that was read into the list, with its neighbours at hand.
    fn keep(&mut self, records: &PageRecords<'_>, slot: usize, mut candidate: Candidate) {
        if self.portable.among.plan == AllowPlan::Scan {
            candidate.progress = CandidateProgress::Explored;
        } else {
            self.derived.neighbours.clear();
            records.neighbours_into(slot, &mut self.derived.neighbours);
            candidate.stash = self.derived.stash.put(&self.derived.neighbours);
        }
        if let Some(pushed) = self.portable.list.insert(candidate) {
            self.derived.stash.release(pushed.stash);
        }
        self.keep_near();
    }

    /// Refills the stash of nodes that were at hand before the state was exported, or explored
    /// before it was extended; in the latter case the list of hits may have been too short for
    /// them.
    fn restash(&mut self, records: &PageRecords<'_>, nodes: std::ops::Range<u32>) {
        for i in 0..self.portable.list.entries().len() {
            let c = self.portable.list.entries()[i];
            if c.progress == CandidateProgress::AtHand
                && c.stash == NO_STASH
                && nodes.contains(&c.node.0)
            {
                self.derived.neighbours.clear();
                let slot = (c.node.0 - nodes.start) as usize;
                if c.allowed && self.portable.params.within.contains(c.distance) {
                    let (distance, row, node) = (c.distance, records.row_id(slot), c.node);
                    self.portable.hits.insert(Hit { distance, row, node, returned: false });
                }
                records.neighbours_into(slot, &mut self.derived.neighbours);
                let entry = self.derived.stash.put(&self.derived.neighbours);
                self.portable.list.set_stash(i, entry);
            }
        }
    }
}
