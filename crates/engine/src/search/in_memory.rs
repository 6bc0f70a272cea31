//! Searching an index whose pages are all in memory: the graph is walked by exact distances.
//!
//! Where nothing is read there is nothing to foresee by codes: a neighbour's record is at hand, so
//! its exact distance costs little more than a look-up of its code, and ranks better. The same
//! candidate list serves, in which all distances are exact and an entry is explored or not; pages
//! are borrowed where they lie, and no stash is used.
//!
//! Where a vector is much longer than its code, only those are compared that by their codes stand
//! a chance to enter the list; docs/decisions/0026 has the figures.
//!
//! A search among some nodes goes the general way, which knows how to walk past the others. What
//! was changed since the pages were written is seen as there, through [`PageRecords`]. A state
//! that is exported half way, or goes on for further results, goes on the general way too.

use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::hits::Hit;
use super::page_records::PageRecords;
use super::state::{SearchState, Step};
use super::view::{AllPages, GraphView};
use super::visited::Seen;
use crate::distance::{QueryDistance, prefetch};
use crate::format::PageView;
use crate::quant::score_many;
use crate::types::NodeId;

/// Neighbours whose records are asked for at once.
const CHUNK: usize = 64;
/// Records that are on their way from memory while one is compared.
const AHEAD: usize = 8;
/// Codes are looked up first where a vector is at least so many times as long.
const LONGER_THAN_CODE: usize = 4;

impl SearchState {
    /// Puts the first candidates into the list.
    pub(super) fn seed_in_memory(&mut self, view: &GraphView<'_>, pages: AllPages<'_>) {
        let query = std::mem::take(&mut self.portable.query);
        let distance = QueryDistance::new(view.metric, view.layout.vector_type(), &query);
        self.derived.in_memory = true;
        self.look_again();
        let long = LONGER_THAN_CODE * view.codebook.code_bytes();
        self.derived.screens = view.codes.is_resident() && view.layout.vector_bytes() >= long;
        if self.derived.screens {
            self.derived.table.fill(view.codebook, &query, view.layout.vector_type());
        }
        self.derived.seeds.clear();
        match view.head {
            Some(head) if self.portable.params.policy.head && self.derived.screens => {
                let (list, codes) = (self.portable.params.head_list, view.codes.view());
                head.search(
                    &mut self.derived.head_scratch,
                    &self.derived.table,
                    codes,
                    list,
                    &mut self.derived.seeds,
                );
                self.portable.stats.code_distances += self.derived.head_scratch.scored() as u64;
                for (score, node) in &mut self.derived.seeds {
                    let coded = *score;
                    exact(view, pages, &distance, &[*node], std::slice::from_mut(score));
                    self.portable.coding_error.add(*score - coded);
                }
                self.portable.stats.exact_distances += self.derived.seeds.len() as u64;
            }
            Some(head) if self.portable.params.policy.head => {
                let mut scored = 0;
                let score = |nodes: &[u32], out: &mut [f32]| {
                    scored += nodes.len();
                    exact(view, pages, &distance, nodes, out);
                };
                let list = self.portable.params.head_list;
                head.search_by(
                    &mut self.derived.head_scratch,
                    list,
                    score,
                    &mut self.derived.seeds,
                );
                self.portable.stats.exact_distances += scored as u64;
            }
            _ => {
                let mut score = [0.0];
                exact(view, pages, &distance, &[view.entry.0], &mut score);
                self.portable.stats.exact_distances += 1;
                self.derived.seeds.push((score[0], view.entry.0));
            }
        }
        self.portable.query = query;
        for i in 0..self.derived.seeds.len() {
            let (distance, node) = self.derived.seeds[i];
            self.derived.visited.insert(node);
            self.add_exact(distance, NodeId(node));
        }
    }

    /// Explores the nearest candidate that is not explored yet.
    pub(super) fn step_in_memory(&mut self, view: &GraphView<'_>, pages: AllPages<'_>) -> Step {
        let Some(nearest) =
            self.portable.list.first_unread(self.portable.params.window_in_memory())
        else {
            return Step::Done;
        };
        if self.leaves_range(nearest) {
            return Step::Done;
        }
        self.explore_in_memory(view, pages, nearest);
        Step::Explored
    }

    fn explore_in_memory(&mut self, view: &GraphView<'_>, pages: AllPages<'_>, at: usize) {
        let Candidate { node, distance, .. } = self.portable.list.entries()[at];
        self.portable.list.set_progress(at, CandidateProgress::Explored);
        self.portable.stats.hops += 1;
        self.portable.stats.resident_pages += 1;
        let (page, slot) = (view.layout.page_of(node), view.layout.slot_of(node));
        let Some(bytes) = pages.explored(page) else { return };
        let records = PageRecords::new(view, page, bytes);
        if records.occupied() & 1 << slot == 0 {
            return;
        }
        if !view.is_deleted(node) {
            self.add_hit(Hit { distance, row: records.row_id(slot), node, returned: false });
        }
        records.neighbours_into(slot, &mut self.derived.neighbours);
        self.derived.fresh.clear();
        for &id in &self.derived.neighbours {
            if id < view.node_slots && self.derived.visited.insert(id) != Seen::Before {
                self.derived.fresh.push(id);
            }
        }
        if self.derived.screens {
            self.screen(view);
        }
        let n = self.derived.fresh.len();
        self.portable.stats.exact_distances += n as u64;
        let query = std::mem::take(&mut self.portable.query);
        let distance = QueryDistance::new(view.metric, view.layout.vector_type(), &query);
        exact(view, pages, &distance, &self.derived.fresh, &mut self.derived.scores[..n]);
        self.portable.query = query;
        for i in 0..n {
            if self.derived.screens {
                self.portable.coding_error.add(self.derived.scores[i] - self.derived.coded[i]);
            }
            if self.derived.scores[i] < self.portable.list.bound() {
                self.add_exact(self.derived.scores[i], NodeId(self.derived.fresh[i]));
            }
        }
    }

    /// Leaves out of `fresh` what, by its code, will hardly enter the list.
    fn screen(&mut self, view: &GraphView<'_>) {
        let n = self.derived.fresh.len();
        score_many(
            &self.derived.table,
            view.codes.view(),
            &self.derived.fresh,
            &mut self.derived.scores[..n],
        );
        self.portable.stats.code_distances += n as u64;
        let reach = self.portable.coding_error.screen(self.portable.list.bound());
        self.derived.coded.clear();
        let mut kept = 0;
        for i in 0..n {
            if self.derived.scores[i] <= reach {
                self.derived.fresh[kept] = self.derived.fresh[i];
                self.derived.coded.push(self.derived.scores[i]);
                kept += 1;
            }
        }
        self.derived.fresh.truncate(kept);
    }

    fn add_exact(&mut self, distance: f32, node: NodeId) {
        // A visited set that was full has forgotten nodes; their distance is the same again.
        if distance == f32::INFINITY
            || self.derived.visited.is_full() && self.portable.list.contains(node, distance)
        {
            return;
        }
        let progress = CandidateProgress::Unread;
        self.portable.list.insert(Candidate {
            distance,
            node,
            stash: NO_STASH,
            progress,
            allowed: true,
        });
        self.keep_in_range();
    }
}

/// Exact distances of nodes, infinite for one that has no record.
fn exact(
    view: &GraphView<'_>,
    pages: AllPages<'_>,
    distance: &QueryDistance<'_>,
    nodes: &[u32],
    out: &mut [f32],
) {
    let layout = view.layout;
    for (nodes, out) in nodes.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
        let mut at_hand: [(&[u8], usize); CHUNK] = [(&[], 0); CHUNK];
        for ((at, &node), i) in at_hand.iter_mut().zip(nodes).zip(0..) {
            let node = NodeId(node);
            *at = (pages.page(layout.page_of(node)).unwrap_or_default(), layout.slot_of(node));
            if i < AHEAD {
                ask_for(view, *at);
            }
        }
        for (i, out) in out.iter_mut().enumerate() {
            if let Some(&next) = at_hand[..nodes.len()].get(i + AHEAD) {
                ask_for(view, next);
            }
            let (page, slot) = at_hand[i];
            *out = if page.is_empty() {
                f32::INFINITY
            } else if view.overlay.is_none() {
                distance.distance(PageView::new(layout, page).vector(slot))
            } else {
                changed(view, page, NodeId(nodes[i]), distance)
            };
        }
    }
}

fn ask_for(view: &GraphView<'_>, (page, slot): (&[u8], usize)) {
    if !page.is_empty() {
        prefetch(PageView::new(view.layout, page).vector(slot));
    }
}

/// As [`exact`], of a node that may have come after its page was written.
fn changed(view: &GraphView<'_>, page: &[u8], node: NodeId, distance: &QueryDistance<'_>) -> f32 {
    let slot = view.layout.slot_of(node);
    let on_disk = PageView::new(view.layout, page);
    // A free slot is all zeros, and looking at the record costs less than at the page's header.
    if on_disk.degree(slot) > 0 {
        return distance.distance(on_disk.vector(slot));
    }
    let records = PageRecords::new(view, view.layout.page_of(node), page);
    let there = records.occupied() & 1 << slot != 0;
    if there { distance.distance(records.vector(slot)) } else { f32::INFINITY }
}
