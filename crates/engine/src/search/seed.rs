//! Where a search begins: nodes from the head index, or with few allowed nodes all of these.

use super::state::SearchState;
use super::view::{CodesUnavailable, GraphView};
use super::visited::Seen;
use crate::filter::AllowSet;
use crate::quant::score_many;
use crate::types::NodeId;

/// Codes scored at once where a whole allow-set is ranked.
pub(super) const SCAN_CHUNK: usize = 512;

impl SearchState {
    pub(super) fn seed_from_head(&mut self, view: &GraphView<'_>) -> Result<(), CodesUnavailable> {
        self.seeds.clear();
        if !view.codes.is_resident() {
            view.codes.ensure(&[view.entry.0])?;
        }
        match view.head {
            // While codes stream in, scattered head nodes would each cost a read of their own.
            Some(head) if self.params.policy.head && view.codes.is_resident() => {
                let codes = view.codes.view();
                let list = self.params.head_list;
                head.search(&mut self.head_scratch, &self.table, codes, list, &mut self.seeds);
                self.stats.code_distances += self.head_scratch.scored() as u64;
            }
            _ => {
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
    pub(super) fn seed_allowed(&mut self, view: &GraphView<'_>) -> Result<(), CodesUnavailable> {
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

    /// How much of the list decides whether the search is over, or with an allow-set as many
    /// entries as hold `list` allowed ones.
    pub(super) fn window(&self) -> usize {
        if self.allow.is_none() || self.scan {
            return if self.scan { self.list.capacity() } else { self.params.window() };
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
}

/// Whether ranking all allowed nodes by code is cheaper than walking the graph past the others.
pub fn scan_pays(allow: &AllowSet, node_slots: u32) -> bool {
    allow.len() <= u64::from(node_slots / 20).max(10_000)
}

/// Capacity of the list where only allowed nodes count: enough to hold `list` of them.
pub(super) fn filtered_capacity(list: usize, allow: &AllowSet, node_slots: u32) -> usize {
    let share = allow.len() as f64 / f64::from(node_slots).max(1.0);
    ((list as f64 / share.max(1e-6)) * 1.5).clamp(list as f64, 8192.0) as usize
}
