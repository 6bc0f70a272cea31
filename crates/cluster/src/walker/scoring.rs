//! Steps of searches whose list stays with their asker: what the engine is to expand, and what it gave.

use pipeann_engine::pool::Task;
use pipeann_engine::search::{Expansion, Frontier, SearchStats};
use pipeann_engine::types::{NodeId, VectorType};

use super::codec::{Asked, Spent, UNREADABLE};
use crate::relay::Scores;
use crate::wire::{Neighbours, Read, Reads};

/// What a pool over vectors of a type is to do for a step.
pub(super) fn task(
    query: Vec<u8>,
    parameters: &[u8],
    ty: VectorType,
    nodes: Vec<u32>,
    (bound, most): (f32, u32),
) -> Task {
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
    let nodes = nodes.into_iter().map(NodeId).collect();
    Task::Expand(Box::new(Frontier { query, nodes, bound, most: most as usize }))
}

/// What an expansion gave, as messages have it.
pub(super) fn scores(expansion: &Expansion, stats: &SearchStats) -> Scores {
    let reads = expansion.expanded.iter().map(|read| Read {
        node: read.node.0,
        distance: read.distance,
        row: read.row.map(|row| row.0),
    });
    let neighbours = expansion.neighbours.iter().map(|&(distance, node)| (distance, node.0));
    Scores {
        reads: Reads::pack(reads),
        neighbours: Neighbours::pack(neighbours),
        stats: Spent::of(stats).encode(),
    }
}
