//! Steps of searches whose list stays with their asker: what the engine is to expand, and what it gave.

use pipeann_engine::pool::Task;
use pipeann_engine::search::{CodingError, Expansion, Frontier, SearchParams, SearchStats};
use pipeann_engine::types::VectorType;

use super::codec::{Asked, Spent, UNREADABLE};
use crate::relay::{EarlyStop, Scores};
use crate::wire::{Neighbours, READS_MAX, Read, Reads};

/// What a pool over vectors of a type is to do for a step.
pub(super) fn task(frontier: Frontier, parameters: &[u8], ty: VectorType) -> Task {
    let Some((asked, filter)) = Asked::decode(parameters) else {
        return Task::Refused(UNREADABLE.to_owned());
    };
    if asked.ty != ty {
        return Task::Refused(asked.other_type(ty));
    }
    if !filter.is_empty() {
        return Task::Refused("a search whose list its asker keeps takes no filter".to_owned());
    }
    if let Err(why) = asked.params().validate() {
        return Task::Refused(why.to_string());
    }
    Task::Expand(Box::new(frontier))
}

/// What an expansion gave, as messages have it.
pub(super) fn scores(expansion: &Expansion, stats: &SearchStats) -> Scores {
    let reads = expansion.expanded.iter().take(READS_MAX).map(|read| Read {
        node: read.node.0,
        distance: read.distance,
        row: read.row.map(|row| row.0),
    });
    let neighbours = expansion.neighbours.iter().map(|&(distance, node)| (distance, node.0));
    Scores {
        reads: Reads::pack(reads),
        neighbours: Neighbours::pack(neighbours),
        early_stop: expansion.early_stop,
        stats: Spent::of(stats).encode(),
    }
}

/// What a search whose list stays with its asker learns from reads, as a search of one server does.
pub fn coding_errors() -> Box<dyn EarlyStop> {
    Box::new(Learnt(CodingError::default()))
}

#[derive(Debug)]
struct Learnt(CodingError);

impl EarlyStop for Learnt {
    fn keeps(&self, list: usize) -> usize {
        SearchParams { list, ..SearchParams::default() }.widest()
    }

    fn note(&mut self, difference: f32) {
        self.0.add(difference);
    }

    fn reach(&self, kth: f32, k: usize, list: usize) -> Option<f32> {
        self.0.reach(kth, k, list)
    }
}
