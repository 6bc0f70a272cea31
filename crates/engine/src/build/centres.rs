//! Partitions around centres: balanced k-medoids. Centres are rows, so that every metric has them.
//!
//! Crowded centres cost more: a price is added to the distances of each, found on a sample so that
//! all draw as many rows (the dual of the assignment with room for so many). What the sample does not
//! foresee is put right by bounds: no partition has more than its most rows or fewer than its least.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::error::BuildError;
use super::partition_bounds::most_rows;
use super::progress::check_cancel;
use super::random::{Random, shuffled};
use crate::distance::PairDistance;

/// Rows that centres are found among, for each of them.
const SAMPLE: usize = 200;
/// Rounds in which centres move.
const ROUNDS: usize = 8;
/// Rows that prices are found by, for each centre, and distances that are kept meanwhile, at most.
const PRICED: usize = 2000;
const DISTANCES: usize = 1 << 24;
/// Rounds in which prices move.
const PRICE_ROUNDS: usize = 100;
/// Rows of the smallest partition over those of the mean, at least.
const LEAST: f64 = 0.95;

/// The partition of each row: that of the centre which costs least and has room.
pub(crate) fn by_centres(
    pair: &PairDistance<'_>,
    rows: usize,
    count: usize,
    seed: u64,
    cancel: &AtomicBool,
) -> Result<Vec<u16>, BuildError> {
    let centres = centres(pair, rows, count, seed, cancel)?;
    check_cancel(cancel)?;
    let prices = prices(pair, rows, &centres, seed);
    check_cancel(cancel)?;
    let cost = |row: u32, at: usize| pair.distance(row as usize, centres[at] as usize) + prices[at];
    let costs = |row: u32| (0..count).map(move |at| cost(row, at));
    // Those that lose most by not going where it costs least choose first.
    let loss = |row: u32| {
        let (mut first, mut second) = (f32::INFINITY, f32::INFINITY);
        for cost in costs(row) {
            second = second.min(cost.max(first));
            first = first.min(cost);
        }
        second - first
    };
    let mut order: Vec<(f32, u32)> =
        (0..rows as u32).into_par_iter().map(|row| (loss(row), row)).collect();
    order.par_sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let most = most_rows(rows, count);
    let (mut sizes, mut part_of) = (vec![0; count], vec![0; rows]);
    for (_, row) in order {
        let free = costs(row).enumerate().filter(|(part, _)| sizes[*part] < most);
        let (part, _) = free.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there is room for all");
        sizes[part] += 1;
        part_of[row as usize] = part as u16;
    }
    let least = (rows as f64 * LEAST / count as f64) as usize;
    fill_up(&mut part_of, &mut sizes, least, cost);
    Ok(part_of)
}

/// Takes rows for partitions that have fewer than `least`: those that lose least by it, of others
/// that have more.
fn fill_up(
    part_of: &mut [u16],
    sizes: &mut [usize],
    least: usize,
    cost: impl Fn(u32, usize) -> f32 + Sync,
) {
    while let Some(part) = (0..sizes.len()).find(|&part| sizes[part] < least) {
        let loss = |row: usize| {
            let own = part_of[row] as usize;
            (sizes[own] > least)
                .then(|| (cost(row as u32, part) - cost(row as u32, own), row as u32))
        };
        let mut willing: Vec<_> = (0..part_of.len()).into_par_iter().filter_map(loss).collect();
        willing.par_sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, row) in willing {
            let own = part_of[row as usize] as usize;
            if sizes[part] >= least {
                break;
            }
            if sizes[own] > least {
                sizes[own] -= 1;
                sizes[part] += 1;
                part_of[row as usize] = part as u16;
            }
        }
    }
}

/// Rows in the middle of others.
fn centres(
    pair: &PairDistance<'_>,
    rows: usize,
    count: usize,
    seed: u64,
    cancel: &AtomicBool,
) -> Result<Vec<u32>, BuildError> {
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
                let mine = sample.iter().zip(&of).filter(|(_, of)| **of == centre);
                let mine: Vec<u32> = mine.map(|(row, _)| *row).collect();
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
    Ok(centres)
}

/// What is added to the distance from each centre, so that each draws as many rows of a sample as
/// can be had.
fn prices(pair: &PairDistance<'_>, rows: usize, centres: &[u32], seed: u64) -> Vec<f32> {
    let count = centres.len();
    let sampled = rows.min(PRICED * count).min((DISTANCES / count).max(1));
    let sample = &shuffled(rows, seed ^ 0x9C1C)[..sampled];
    let row_of = |row: &u32| {
        let row = *row as usize;
        centres.iter().map(move |&c| pair.distance(row, c as usize)).collect::<Vec<f32>>()
    };
    let distances: Vec<f32> = sample.par_iter().flat_map_iter(row_of).collect();
    // How far the nearest two centres of a row lie apart: what a price has to weigh against.
    let apart = distances.chunks_exact(count).map(|of| {
        let mut of = of.to_vec();
        of.sort_unstable_by(f32::total_cmp);
        of.get(1).map_or(0.0, |second| f64::from(second - of[0]))
    });
    let mut step = (apart.sum::<f64>() / sampled as f64) as f32;
    let mean = sampled as f32 / count as f32;
    let (mut prices, mut best) = (vec![0.0; count], (usize::MAX, vec![0.0; count]));
    for _ in 0..PRICE_ROUNDS {
        let cheapest = |of: &[f32]| {
            let costs =
                of.iter().zip(&prices).map(|(distance, price): (&f32, &f32)| distance + price);
            costs.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at)
        };
        let mut drawn = vec![0usize; count];
        let of: Vec<usize> = distances.par_chunks_exact(count).map(cheapest).collect();
        of.into_iter().for_each(|centre| drawn[centre] += 1);
        let largest = drawn.iter().copied().max().unwrap_or(0);
        if largest < best.0 {
            best = (largest, prices.clone());
        }
        for (price, &drawn) in prices.iter_mut().zip(&drawn) {
            *price += step * (drawn as f32 / mean - 1.0).clamp(-1.0, 1.0);
        }
        step *= 0.97;
    }
    best.1
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
