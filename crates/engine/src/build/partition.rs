//! Which rows come into which partition.
//!
//! A search goes from one near node to the next, so a partition keeps together what is near: the
//! fewer edges lead out of it, the seldomer a search has to go on elsewhere. All partitions have as
//! many rows but for a few, since each is to be held by a server of its own.

use std::sync::atomic::AtomicBool;

use super::centres::by_centres;
#[cfg(feature = "partitioner")]
use super::coarsen::{contracted, groups};
use super::error::BuildError;
#[cfg(feature = "partitioner")]
use super::kway::kway;
#[cfg(feature = "partitioner")]
use super::near_file::NearFile;
#[cfg(feature = "partitioner")]
use super::near_graph::NearGraph;
use super::nearest::Nearest;
use super::numbering::EdgesBetween;
use super::options::PartitionBy;
use super::partition_bounds::NEAR;
#[cfg(feature = "partitioner")]
use super::partition_bounds::NEAR_IN_FILES;
use super::plan::CutPlan;
use super::progress::check_cancel;
use super::random::shuffled;
#[cfg(feature = "partitioner")]
use super::settle::{Settling, WeightedLists as _};
use super::site::Site;
use super::spill::Spill;
use crate::distance::PairDistance;

/// Passes in which rows go where more of their neighbours are, once they are in partitions.
#[cfg(feature = "partitioner")]
const PASSES: usize = 10;

/// The rows of each partition, ascending.
pub(crate) fn assign(
    pair: &PairDistance<'_>,
    nearest: &Nearest,
    (count, by): (usize, PartitionBy),
    seed: u64,
    cancel: &AtomicBool,
) -> Result<Vec<Vec<u32>>, BuildError> {
    check_cancel(cancel)?;
    let rows = nearest.nodes();
    let mut part_of = match by {
        PartitionBy::Graph => by_graph(nearest, count, seed, cancel)?,
        PartitionBy::Kmeans => by_centres(pair, rows, count, seed, cancel)?,
        PartitionBy::Random => at_random(rows, count, seed),
        PartitionBy::Order => unreachable!("the order of pages is cut, not rows"),
    };
    check_cancel(cancel)?;
    fill(&mut part_of, count);
    if by != PartitionBy::Random {
        let mut between = EdgesBetween::default();
        for (row, &part) in part_of.iter().enumerate() {
            let near = nearest.of(row).iter().take(NEAR);
            near.for_each(|&to| between.add(part, part_of[to as usize], 1));
        }
        between.renumber(&mut part_of, count);
    }
    let mut members = vec![Vec::with_capacity(rows / count + 1); count];
    for (row, part) in part_of.into_iter().enumerate() {
        members[part as usize].push(row as u32);
    }
    Ok(members)
}

/// Takes rows for partitions that got none from those that have most.
fn fill(part_of: &mut [u16], count: usize) {
    let mut sizes = vec![0usize; count];
    part_of.iter().for_each(|&part| sizes[part as usize] += 1);
    while let Some(empty) = sizes.iter().position(|&rows| rows == 0) {
        let largest = (0..count).max_by_key(|&part| sizes[part]).expect("there are partitions");
        let last = part_of.iter().rposition(|&part| part as usize == largest);
        part_of[last.expect("the largest has rows")] = empty as u16;
        sizes[largest] -= 1;
        sizes[empty] += 1;
    }
}

/// As [`assign`], of lists of near neighbours in a file, by what needs nothing else; answers with the
/// partition of each row.
pub(crate) fn assign_limited(
    site: &Site,
    near: &Spill,
    (count, by): (usize, PartitionBy),
    plan: &CutPlan,
    seed: u64,
    cancel: &AtomicBool,
) -> Result<Vec<u16>, BuildError> {
    use super::reach::EdgeLists as _;
    let mut part_of = match by {
        PartitionBy::Random => at_random(near.nodes(), count, seed),
        _ => by_groups(site, near, count, plan, seed, cancel)?,
    };
    fill(&mut part_of, count);
    Ok(part_of)
}

/// Cuts the graph of groups of near rows, and then moves rows one by one.
#[cfg(feature = "partitioner")]
fn by_groups(
    site: &Site,
    near: &Spill,
    count: usize,
    plan: &CutPlan,
    seed: u64,
    cancel: &AtomicBool,
) -> Result<Vec<u16>, BuildError> {
    let lists = NearFile::new(site, near, NEAR_IN_FILES, plan.sorted_bytes, cancel)?;
    let part_of = {
        let group_of = groups(&lists, plan.group, cancel)?;
        let (graph, sizes) = contracted(&lists, &group_of, plan.edges, cancel)?.ok_or(TOO_MANY)?;
        let part_of_group = kway(&graph, Some(&sizes), count, seed)?;
        group_of.iter().map(|&group| part_of_group[group as usize]).collect()
    };
    let mut settling = Settling::new(part_of, count, cancel);
    settling.settle(&lists, PASSES)?;
    let mut part_of = settling.into_parts();
    let mut between = EdgesBetween::default();
    lists.each(&mut |row, neighbours| {
        let part = part_of[row as usize];
        neighbours.iter().for_each(|&(to, weight)| {
            between.add(part, part_of[to as usize], weight.into());
        });
        Ok(())
    })?;
    between.renumber(&mut part_of, count);
    Ok(part_of)
}

fn at_random(rows: usize, count: usize, seed: u64) -> Vec<u16> {
    let mut part_of = vec![0; rows];
    for (at, row) in shuffled(rows, seed ^ 0x9A27).into_iter().enumerate() {
        part_of[row as usize] = (at * count / rows) as u16;
    }
    part_of
}

#[cfg(not(feature = "partitioner"))]
fn by_groups(
    _: &Site,
    _: &Spill,
    _: usize,
    _: &CutPlan,
    _: u64,
    _: &AtomicBool,
) -> Result<Vec<u16>, BuildError> {
    unreachable!("refused before the build began")
}

#[cfg(not(feature = "partitioner"))]
fn by_graph(_: &Nearest, _: usize, _: u64, _: &AtomicBool) -> Result<Vec<u16>, BuildError> {
    unreachable!("refused before the build began")
}

/// Cuts the graph of near neighbours, and moves rows until no partition is too large and none has
/// more of its neighbours elsewhere.
#[cfg(feature = "partitioner")]
fn by_graph(
    nearest: &Nearest,
    count: usize,
    seed: u64,
    cancel: &AtomicBool,
) -> Result<Vec<u16>, BuildError> {
    let graph = NearGraph::new(nearest, NEAR).ok_or(TOO_MANY)?;
    let part_of = kway(&graph, None, count, seed)?;
    let mut settling = Settling::new(part_of, count, cancel);
    settling.settle(&graph, PASSES)?;
    Ok(settling.into_parts())
}

#[cfg(feature = "partitioner")]
const TOO_MANY: BuildError = BuildError::Option {
    option: "partition-by",
    why: "`graph` takes fewer than 2^31 pairs of neighbours; use `kmeans`",
};
