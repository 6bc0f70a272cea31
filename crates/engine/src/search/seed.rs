//! Where a search through the graph begins: nodes from the head index.

use super::state::SearchState;
use super::view::{CodesUnavailable, GraphView};
use super::visited::Seen;
use super::without::more_entries;
use crate::quant::score_many;
use crate::types::NodeId;

impl SearchState {
    pub(super) fn seed_from_head(&mut self, view: &GraphView<'_>) -> Result<(), CodesUnavailable> {
        self.derived.seeds.clear();
        match view.head {
            Some(head) if self.portable.params.policy.head => {
                let (table, mut missing) = (&self.derived.table, Ok(()));
                let score = |ids: &[u32], scores: &mut [f32]| {
                    if missing.is_ok() && !view.codes.is_resident() {
                        missing = view.codes.ensure(ids);
                    }
                    match &missing {
                        Ok(()) => score_many(table, view.codes.view(), ids, scores),
                        Err(_) => scores.fill(f32::INFINITY),
                    }
                };
                let mut score = score;
                let mut list = self.portable.params.head_list;
                loop {
                    head.search_by(
                        &mut self.derived.head_scratch,
                        list,
                        &mut score,
                        &mut self.derived.seeds,
                    );
                    self.portable.stats.code_distances += self.derived.head_scratch.scored() as u64;
                    match more_entries(
                        &mut self.derived.seeds,
                        &self.portable.params,
                        view.layout,
                        list,
                    ) {
                        Some(longer) => list = longer,
                        None => break,
                    }
                }
                missing?;
            }
            _ => {
                if !view.codes.is_resident() {
                    view.codes.ensure(&[view.entry.0])?;
                }
                let score = &mut self.derived.scores[..1];
                score_many(&self.derived.table, view.codes.view(), &[view.entry.0], score);
                self.portable.stats.code_distances += 1;
                self.derived.seeds.push((self.derived.scores[0], view.entry.0));
                more_entries(
                    &mut self.derived.seeds,
                    &self.portable.params,
                    view.layout,
                    usize::MAX,
                );
            }
        }
        self.stand_in_entries(view)?;
        for i in 0..self.derived.seeds.len() {
            let (distance, node) = self.derived.seeds[i];
            if self.derived.visited.insert(node) == Seen::New {
                self.add_unread(distance, NodeId(node));
            }
        }
        Ok(())
    }
}
