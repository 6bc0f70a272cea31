//! Groups of near rows, as many to a group as are asked for at most: the coarse graph that is cut
//! where the graph of rows would not fit.
//!
//! Labels go from row to row as far as groups have room (size-constrained label propagation,
//! Meyerhenke, Sanders and Schulz, 2014): each row joins the group that most of its neighbours are
//! in, in passes over their lists from front to back. In memory are a group and its size for each row.

use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use super::near_file::NearFile;
use super::near_graph::NearGraph;
use super::progress::check_cancel;
use super::settle::WeightedLists;

/// Rows between looks at whether to stop.
const STEP: u32 = 1 << 14;

/// Passes in which rows join groups.
const PASSES: usize = 5;

/// The group of each row, numbered from 0 in the order of their first rows.
pub(crate) fn groups(
    lists: &dyn WeightedLists,
    most: u32,
    cancel: &AtomicBool,
) -> Result<Vec<u32>, BuildError> {
    let rows = lists.rows();
    let mut group_of: Vec<u32> = (0..rows as u32).collect();
    let mut sizes = vec![1u32; rows];
    let mut drawn: Vec<(u32, u32)> = Vec::new();
    for _ in 0..PASSES {
        lists.each(&mut |row, neighbours| {
            if row % STEP == 0 {
                check_cancel(cancel)?;
            }
            let own = group_of[row as usize];
            drawn.clear();
            drawn.extend(neighbours.iter().map(|&(to, weight)| (group_of[to as usize], weight)));
            drawn.sort_unstable();
            // Its own, where no other has more.
            let mut best = (0, 0, own);
            for run in drawn.chunk_by(|a, b| a.0 == b.0) {
                let (group, weight) = (run[0].0, run.iter().map(|d| d.1).sum::<u32>());
                let size = sizes[group as usize];
                let has_room = group == own || size < most;
                let key = (weight, u32::from(group == own), group);
                if has_room && (key.0, key.1) > (best.0, best.1) {
                    best = key;
                }
            }
            if best.2 != own {
                sizes[own as usize] -= 1;
                sizes[best.2 as usize] += 1;
                group_of[row as usize] = best.2;
            }
            Ok(())
        })?;
    }
    let mut next = 0;
    let mut number = sizes;
    number.fill(u32::MAX);
    for group in &mut group_of {
        let number = &mut number[*group as usize];
        if *number == u32::MAX {
            *number = next;
            next += 1;
        }
        *group = *number;
    }
    Ok(group_of)
}

/// The graph of groups and the rows of each: edges as heavy as the pairs of neighbours between two
/// groups together, the heaviest ones where there are more than `most_edges`, each counted from both
/// its ends. `None` where that is more than METIS counts.
pub(crate) fn contracted(
    lists: &NearFile,
    group_of: &[u32],
    most_edges: usize,
    cancel: &AtomicBool,
) -> Result<Option<(NearGraph, Vec<i32>)>, BuildError> {
    let members = GroupMembers::new(group_of);
    let groups = members.sizes.len();
    let mut between = Between { weights: vec![0; groups], touched: vec![], list: vec![] };
    let mut of_weight: Vec<usize> = Vec::new();
    members.each(cancel, |group, own| {
        between.draw(lists, group_of, group, own, |_, weight| {
            let weight = weight as usize;
            of_weight.resize(of_weight.len().max(weight + 1), 0);
            of_weight[weight] += 1;
        })
    })?;
    // Both ends see the same weight, so an edge goes from both or from none.
    let least = least_within(&of_weight, most_edges);
    let edges = of_weight.iter().skip(least).sum::<usize>();
    if i32::try_from(edges).is_err() {
        return Ok(None);
    }
    let mut graph = NearGraph {
        offsets: Vec::with_capacity(groups + 1),
        neighbours: Vec::with_capacity(edges),
        weights: Vec::with_capacity(edges),
    };
    graph.offsets.push(0);
    members.each(cancel, |group, own| {
        between.draw(lists, group_of, group, own, |other, weight| {
            if weight as usize >= least {
                graph.neighbours.push(other as i32);
                graph.weights.push(weight);
            }
        })?;
        graph.offsets.push(graph.neighbours.len() as i32);
        Ok(())
    })?;
    Ok(Some((graph, members.sizes)))
}

/// The smallest weight such that there are at most `most` of this weight and above; `of_weight` is how
/// many there are of each.
fn least_within(of_weight: &[usize], most: usize) -> usize {
    let mut kept = 0;
    let fits = |&(_, of): &(usize, &usize)| {
        kept += of;
        kept <= most
    };
    let last = of_weight.iter().enumerate().rev().take_while(fits).last();
    last.map_or(of_weight.len(), |(weight, _)| weight)
}

/// The rows of each group.
struct GroupMembers {
    rows: Vec<u32>,
    sizes: Vec<i32>,
}

impl GroupMembers {
    fn new(group_of: &[u32]) -> Self {
        let groups = group_of.iter().max().map_or(0, |last| *last as usize + 1);
        let mut next = vec![0u32; groups + 1];
        group_of.iter().for_each(|&group| next[group as usize + 1] += 1);
        let sizes: Vec<i32> = next[1..].iter().map(|&rows| rows as i32).collect();
        (0..groups).for_each(|group| next[group + 1] += next[group]);
        let mut rows = vec![0u32; group_of.len()];
        for (row, &group) in group_of.iter().enumerate() {
            rows[next[group as usize] as usize] = row as u32;
            next[group as usize] += 1;
        }
        Self { rows, sizes }
    }

    /// Tells of each group and its rows, in order.
    fn each(
        &self,
        cancel: &AtomicBool,
        mut tell: impl FnMut(u32, &[u32]) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        let mut members = &self.rows[..];
        for (group, &size) in self.sizes.iter().enumerate() {
            if (group as u32).is_multiple_of(STEP) {
                check_cancel(cancel)?;
            }
            let (own, others) = members.split_at(size as usize);
            members = others;
            tell(group as u32, own)?;
        }
        Ok(())
    }
}

/// Adds up what lies between one group and others.
struct Between {
    /// By group; zero but while one is drawn.
    weights: Vec<i32>,
    touched: Vec<u32>,
    list: Vec<u32>,
}

impl Between {
    /// Tells of each group that the rows `own` of `group` have neighbours in, in order, and how many.
    fn draw(
        &mut self,
        lists: &NearFile,
        group_of: &[u32],
        group: u32,
        own: &[u32],
        mut tell: impl FnMut(u32, i32),
    ) -> Result<(), BuildError> {
        let Self { weights, touched, list } = self;
        for &row in own {
            lists.read(row, list)?;
            for &to in &*list {
                let other = group_of[to as usize];
                if other == group {
                    continue;
                }
                if weights[other as usize] == 0 {
                    touched.push(other);
                }
                weights[other as usize] += 1;
            }
        }
        touched.sort_unstable();
        for other in touched.drain(..) {
            tell(other, std::mem::take(&mut weights[other as usize]));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::least_within;

    #[test]
    fn the_heaviest_that_fit_are_kept() {
        let of_weight = [0, 5, 3, 0, 2];
        for (most, least) in [(0, 5), (1, 5), (2, 3), (4, 3), (5, 2), (9, 2), (10, 0), (99, 0)] {
            assert_eq!(least_within(&of_weight, most), least, "at most {most}");
        }
        assert_eq!(least_within(&[], 0), 0);
    }
}
