//! Which rows come into which partition.
//!
//! A search goes from one near node to the next, so a partition keeps together what is near: the
//! fewer edges lead out of it, the seldomer a search has to go on elsewhere. All partitions have as
//! many rows but for a few, since each is to be held by a server of its own.

use std::sync::atomic::AtomicBool;
#[cfg(feature = "partitioner")]
use std::sync::{Mutex, PoisonError};

use super::error::BuildError;
use super::nearest::Nearest;
use super::options::PartitionBy;
use super::progress::check_cancel;
use super::random::{Random, shuffled};
use crate::distance::PairDistance;

/// Rows of the largest partition over those of the mean, at most.
const IMBALANCE: f64 = 1.05;
/// Cuts that are tried, of which the best is taken.
#[cfg(feature = "partitioner")]
const CUTS: i32 = 4;
/// Times that each is refined at each level.
#[cfg(feature = "partitioner")]
const REFINED: i32 = 20;
/// Near neighbours whose edges are cut or kept.
#[cfg(feature = "partitioner")]
const NEAR: usize = 10;

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
    let part_of = match by {
        PartitionBy::Graph => by_graph(nearest, count, seed)?,
        PartitionBy::Kmeans => by_centres(pair, rows, count, seed, cancel)?,
        PartitionBy::Random => at_random(rows, count, seed),
        PartitionBy::Order => unreachable!("the order of pages is cut, not rows"),
    };
    check_cancel(cancel)?;
    let mut members = vec![Vec::with_capacity(rows / count + 1); count];
    for (row, part) in part_of.into_iter().enumerate() {
        members[part as usize].push(row as u32);
    }
    Ok(filled(members))
}

/// Takes rows for partitions that got none from those that have most.
fn filled(mut members: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    while let Some(empty) = members.iter().position(Vec::is_empty) {
        let largest = (0..members.len()).max_by_key(|&part| members[part].len());
        let row = largest.and_then(|part| members[part].pop());
        members[empty].extend(row);
    }
    members
}

fn at_random(rows: usize, count: usize, seed: u64) -> Vec<u32> {
    let mut part_of = vec![0; rows];
    for (at, row) in shuffled(rows, seed ^ 0x9A27).into_iter().enumerate() {
        part_of[row as usize] = (at * count / rows) as u32;
    }
    part_of
}

#[cfg(not(feature = "partitioner"))]
fn by_graph(_: &Nearest, _: usize, _: u64) -> Result<Vec<u32>, BuildError> {
    unreachable!("refused before the build began")
}

/// Cuts the graph of near neighbours by METIS (Karypis and Kumar, 1998): the partitions with
/// the fewest pairs of neighbours on two sides that it finds.
#[cfg(feature = "partitioner")]
fn by_graph(nearest: &Nearest, count: usize, seed: u64) -> Result<Vec<u32>, BuildError> {
    use metis::option::{NCuts, NIter, Seed, UFactor};
    let refuse = |why| BuildError::Option { option: "partition-by", why };
    let rows = nearest.nodes();
    let (offsets, neighbours, weights) = symmetric(nearest)
        .ok_or(refuse("`graph` takes fewer than 2^31 pairs of neighbours; use `kmeans`"))?;
    let parts = i32::try_from(count).expect("at most 10,000 partitions");
    let mut part_of = vec![0; rows];
    // It keeps the handlers of signals of the process while it runs, and puts them back.
    let _alone = METIS.lock().unwrap_or_else(PoisonError::into_inner);
    let graph = metis::Graph::new(1, parts, &offsets, &neighbours)
        .map_err(|_| refuse("the graph of neighbours is none that METIS takes"))?;
    // In thousandths, and below the bound: pages round.
    let slack = ((IMBALANCE - 1.0) * 800.0) as i32;
    graph
        .set_adjwgt(&weights)
        .set_option(Seed((seed & 0x7FFF_FFFF) as i32))
        .set_option(UFactor(slack))
        .set_option(NCuts(CUTS))
        .set_option(NIter(REFINED))
        .part_kway(&mut part_of)
        .map_err(|_| refuse("METIS has no memory for the graph of neighbours; use `kmeans`"))?;
    Ok(part_of.into_iter().map(|part| part as u32).collect())
}

/// Held by the one build that METIS works for.
#[cfg(feature = "partitioner")]
static METIS: Mutex<()> = Mutex::new(());

/// Offsets, neighbours and weights of each node.
#[cfg(feature = "partitioner")]
type Csr = (Vec<i32>, Vec<i32>, Vec<i32>);

/// Near neighbours in both directions, mutual ones of twice the weight; `None` where there are more
/// than METIS counts.
#[cfg(feature = "partitioner")]
fn symmetric(nearest: &Nearest) -> Option<Csr> {
    let rows = nearest.nodes();
    let pairs = || {
        (0..rows).flat_map(|row| nearest.of(row).iter().take(NEAR).map(move |&n| (row, n as usize)))
    };
    let mut offsets = vec![0u64; rows + 1];
    pairs().for_each(|(a, b)| {
        offsets[a + 1] += 1;
        offsets[b + 1] += 1;
    });
    (0..rows).for_each(|row| offsets[row + 1] += offsets[row]);
    i32::try_from(offsets[rows]).ok()?;
    let mut next = offsets.clone();
    let mut neighbours = vec![0i32; offsets[rows] as usize];
    pairs().for_each(|(a, b)| {
        for (from, to) in [(a, b), (b, a)] {
            neighbours[next[from] as usize] = to as i32;
            next[from] += 1;
        }
    });
    // A mutual neighbour stands there twice.
    let (mut kept, mut weights) = (0, Vec::with_capacity(neighbours.len()));
    let mut starts = Vec::with_capacity(rows + 1);
    for row in 0..rows {
        starts.push(kept as i32);
        let range = offsets[row] as usize..offsets[row + 1] as usize;
        neighbours[range.clone()].sort_unstable();
        let first = kept;
        for at in range {
            if kept > first && neighbours[kept - 1] == neighbours[at] {
                weights[kept - 1] = 2;
            } else {
                neighbours[kept] = neighbours[at];
                weights.push(1);
                kept += 1;
            }
        }
    }
    starts.push(kept as i32);
    neighbours.truncate(kept);
    Some((starts, neighbours, weights))
}

/// Rows that centres are found among, for each of them.
const SAMPLE: usize = 200;
/// Rounds in which centres move.
const ROUNDS: usize = 8;

/// Gives each row to the nearest of `count` centres that has room. Centres are rows: then every
/// metric has them.
fn by_centres(
    pair: &PairDistance<'_>,
    rows: usize,
    count: usize,
    seed: u64,
    cancel: &AtomicBool,
) -> Result<Vec<u32>, BuildError> {
    use rayon::prelude::*;
    let sample = &shuffled(rows, seed ^ 0xCE27)[..rows.min(SAMPLE * count)];
    let mut centres = spread(pair, sample, count, seed);
    let nearest = |row: u32, centres: &[u32]| {
        let distances = centres.iter().map(|&c| pair.distance(row as usize, c as usize));
        let best = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        best.map_or(0, |(at, _)| at)
    };
    for _ in 0..ROUNDS {
        check_cancel(cancel)?;
        let of: Vec<usize> = sample.par_iter().map(|&row| nearest(row, &centres)).collect();
        let moved: Vec<u32> = (0..count)
            .into_par_iter()
            .map(|centre| {
                let mine: Vec<u32> = sample
                    .iter()
                    .zip(&of)
                    .filter(|(_, of)| **of == centre)
                    .map(|(r, _)| *r)
                    .collect();
                let cost = |row: u32| -> f32 {
                    mine.iter().map(|&other| pair.distance(row as usize, other as usize)).sum()
                };
                let best = mine.iter().map(|&row| (cost(row), row));
                best.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(centres[centre], |(_, row)| row)
            })
            .collect();
        if moved == centres {
            break;
        }
        centres = moved;
    }
    check_cancel(cancel)?;
    // Those that lose most by not going to their nearest choose first.
    let ranked = |row: usize| {
        let mut to: Vec<(f32, u32)> =
            (0..count).map(|c| (pair.distance(row, centres[c] as usize), c as u32)).collect();
        to.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        to
    };
    let loss = |row: usize| {
        let to = ranked(row);
        to.get(1).map_or(0.0, |second| second.0 - to[0].0)
    };
    let mut order: Vec<(f32, u32)> =
        (0..rows).into_par_iter().map(|row| (loss(row), row as u32)).collect();
    order.par_sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let most = (rows as f64 * IMBALANCE / count as f64).floor().max((rows.div_ceil(count)) as f64);
    let mut room = vec![most as usize; count];
    let mut part_of = vec![0; rows];
    for (_, row) in order {
        let to = ranked(row as usize);
        let (_, part) = to.iter().find(|(_, part)| room[*part as usize] > 0).expect("room for all");
        room[*part as usize] -= 1;
        part_of[row as usize] = *part;
    }
    Ok(part_of)
}

/// First centres, far from each other: each drawn by its squared distance to those before it
/// (k-means++, Arthur and Vassilvitskii, 2007).
fn spread(pair: &PairDistance<'_>, sample: &[u32], count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed ^ 0x5EED);
    let mut centres = vec![sample[random.below(sample.len())]];
    let mut far = vec![f32::INFINITY; sample.len()];
    while centres.len() < count {
        let last = *centres.last().expect("there is one") as usize;
        for (far, &row) in far.iter_mut().zip(sample) {
            *far = far.min(pair.distance(row as usize, last));
        }
        let sum: f64 = far.iter().map(|&d| f64::from(d)).sum();
        let mut drawn = sum * random.below(1 << 30) as f64 / f64::from(1 << 30);
        let at = far.iter().position(|&d| {
            drawn -= f64::from(d);
            drawn < 0.0
        });
        // Where all are equal, any.
        centres.push(sample[at.unwrap_or_else(|| random.below(sample.len()))]);
    }
    centres
}
