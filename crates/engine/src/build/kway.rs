//! Cuts a weighted graph into parts by METIS (Karypis and Kumar, 1998): those with the fewest pairs
//! of neighbours on two sides that it finds. What it is asked for of balance it does not always keep.

use std::sync::{Mutex, PoisonError};

use super::error::BuildError;
use super::near_graph::NearGraph;
use super::partition_bounds::IMBALANCE;

/// Cuts that are tried, of which the best is taken.
const CUTS: i32 = 2;
/// Times that each is refined at each level.
const REFINED: i32 = 20;

/// Held by the one build that METIS works for.
static METIS: Mutex<()> = Mutex::new(());

/// The part of each node, below `count`.
pub(crate) fn kway(
    graph: &NearGraph,
    node_weights: Option<&[i32]>,
    count: usize,
    seed: u64,
) -> Result<Vec<u16>, BuildError> {
    use metis::option::{NCuts, NIter, Seed, UFactor};
    if graph.neighbours.is_empty() {
        return Ok(in_turn(node_weights, graph.offsets.len() - 1, count));
    }
    let refuse = |why| BuildError::Option { option: "partition-by", why };
    let parts = i32::try_from(count).expect("at most 10,000 partitions");
    let mut part_of = vec![0; graph.offsets.len() - 1];
    // It keeps the handlers of signals of the process while it runs, and puts them back.
    let _alone = METIS.lock().unwrap_or_else(PoisonError::into_inner);
    let cut = metis::Graph::new(1, parts, &graph.offsets, &graph.neighbours)
        .map_err(|_| refuse("the graph of neighbours is none that METIS takes"))?;
    let cut = node_weights.into_iter().fold(cut, |cut, weights| cut.set_vwgt(weights));
    // In thousandths, and below the bound: pages round.
    let slack = ((IMBALANCE - 1.0) * 800.0) as i32;
    cut.set_adjwgt(&graph.weights)
        .set_option(Seed((seed & 0x7FFF_FFFF) as i32))
        .set_option(UFactor(slack))
        .set_option(NCuts(CUTS))
        .set_option(NIter(REFINED))
        .part_kway(&mut part_of)
        .map_err(|_| refuse("METIS has no memory for the graph of neighbours; use `kmeans`"))?;
    Ok(part_of.into_iter().map(|part| part as u16).collect())
}

/// Nodes that nothing draws to each other, one after the other into parts of equal weight.
fn in_turn(node_weights: Option<&[i32]>, nodes: usize, count: usize) -> Vec<u16> {
    let weight = |node: usize| node_weights.map_or(1, |weights| weights[node] as u64);
    let all: u64 = (0..nodes).map(weight).sum();
    let mut before = 0;
    let part = |node: usize| {
        let part = before * count as u64 / all.max(1);
        before += weight(node);
        part as u16
    };
    (0..nodes).map(part).collect()
}
