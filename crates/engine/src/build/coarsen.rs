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
/// groups together. `None` where there are more than METIS counts.
pub(crate) fn contracted(
    lists: &NearFile,
    group_of: &[u32],
    cancel: &AtomicBool,
) -> Result<Option<(NearGraph, Vec<i32>)>, BuildError> {
    let groups = group_of.iter().max().map_or(0, |last| *last as usize + 1);
    let mut next = vec![0u32; groups + 1];
    group_of.iter().for_each(|&group| next[group as usize + 1] += 1);
    let sizes: Vec<i32> = next[1..].iter().map(|&rows| rows as i32).collect();
    (0..groups).for_each(|group| next[group + 1] += next[group]);
    let mut members = vec![0u32; group_of.len()];
    for (row, &group) in group_of.iter().enumerate() {
        members[next[group as usize] as usize] = row as u32;
        next[group as usize] += 1;
    }
    let mut graph = NearGraph { offsets: vec![0], neighbours: vec![], weights: vec![] };
    let (mut weights, mut touched, mut list) = (vec![0i32; groups], Vec::new(), Vec::new());
    let mut members = &members[..];
    for (group, &size) in sizes.iter().enumerate() {
        if (group as u32).is_multiple_of(STEP) {
            check_cancel(cancel)?;
        }
        let (own, others) = members.split_at(size as usize);
        members = others;
        for &row in own {
            lists.read(row, &mut list)?;
            for &to in &list {
                let other = group_of[to as usize] as usize;
                if other != group && weights[other] == 0 {
                    touched.push(other as i32);
                }
                weights[other] += i32::from(other != group);
            }
        }
        touched.sort_unstable();
        for other in touched.drain(..) {
            graph.neighbours.push(other);
            graph.weights.push(std::mem::take(&mut weights[other as usize]));
        }
        let Ok(end) = i32::try_from(graph.neighbours.len()) else { return Ok(None) };
        graph.offsets.push(end);
    }
    Ok(Some((graph, sizes)))
}
