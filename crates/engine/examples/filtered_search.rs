//! What searches among some of the nodes find and cost, beside searches among all.
//!
//! `cargo run --release -p pipeann-engine --example filtered_search -- INDEX BASE QUERIES [COUNT
//! [LIST,LIST,.. [KIND]]]`
//!
//! INDEX is an index of BASE, whose rows are numbered as they stand; BASE and QUERIES are files of
//! u8 vectors behind two u32, rows and dimension, compared by squared L2. COUNT queries are taken
//! for each share of allowed rows: chosen by chance, those nearest to some row with the queries
//! nearest to it (`near`), and the same with the queries farthest from it (`far`). KIND is a part of
//! the names of those cells that are wanted.

use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pipeann_engine::distance::QueryDistance;
use pipeann_engine::filter::AllowSet;
use pipeann_engine::index::{BatchOptions, Index, OpenOptions};
use pipeann_engine::search::SearchParams;
use pipeann_engine::types::{Metric, RowId, VectorSet, VectorType};

type Failure = Box<dyn std::error::Error>;

const K: usize = 10;
/// The row that correlated sets lie around.
const CENTRE: usize = 12_345;
const SHARES: [f64; 9] = [1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.9];

struct Vectors {
    bytes: Vec<u8>,
    dim: usize,
}

impl Vectors {
    fn read(path: &str) -> Result<Self, Failure> {
        let bytes = std::fs::read(path)?;
        let dim = u32::from_le_bytes(bytes[4..8].try_into()?) as usize;
        Ok(Self { bytes: bytes[8..].to_vec(), dim })
    }

    fn len(&self) -> usize {
        self.bytes.len() / self.dim
    }

    fn row(&self, row: usize) -> &[u8] {
        &self.bytes[row * self.dim..(row + 1) * self.dim]
    }
}

/// Rows by ascending distance from a vector.
fn by_distance(rows: &Vectors, from: &[u8]) -> Vec<usize> {
    let distance = QueryDistance::new(Metric::L2, VectorType::U8, from);
    let mut all: Vec<(f32, usize)> =
        (0..rows.len()).map(|row| (distance.distance(rows.row(row)), row)).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.into_iter().map(|(_, row)| row).collect()
}

/// The distance of the `K`-th nearest of some rows.
fn kth(base: &Vectors, rows: &[usize], query: &[u8]) -> f32 {
    let distance = QueryDistance::new(Metric::L2, VectorType::U8, query);
    let mut nearest = BinaryHeap::new();
    for &row in rows {
        let distance = distance.distance(base.row(row)).to_bits();
        if nearest.len() < K {
            nearest.push(distance);
        } else if nearest.peek().is_some_and(|worst| distance < *worst) {
            nearest.pop();
            nearest.push(distance);
        }
    }
    nearest.peek().map_or(0.0, |bits| f32::from_bits(*bits))
}

struct Cell {
    name: String,
    rows: Option<Vec<usize>>,
    queries: Vec<usize>,
}

fn cells(base: &Vectors, queries: &Vectors, count: usize) -> Vec<Cell> {
    let order = by_distance(base, base.row(CENTRE));
    let around = by_distance(queries, base.row(CENTRE));
    let any: Vec<usize> = (0..count).collect();
    let near = around[..count].to_vec();
    let far = around[around.len() - count..].to_vec();
    let mut cells = vec![Cell { name: "all".into(), rows: None, queries: any.clone() }];
    for share in SHARES {
        let some = (base.len() as f64 * share) as usize;
        let drawn = |row: &usize| {
            let hash = (*row as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            ((hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11) as f64
                / (1u64 << 53) as f64
                <= share
        };
        let chance: Vec<usize> = (0..base.len()).filter(drawn).collect();
        let nearest = order[..some].to_vec();
        for (kind, rows, queries) in
            [("chance", chance, &any), ("near", nearest.clone(), &near), ("far", nearest, &far)]
        {
            cells.push(Cell {
                name: format!("{kind} {:.2}%", share * 100.0),
                rows: Some(rows),
                queries: queries.clone(),
            });
        }
    }
    cells
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [index, base, queries, rest @ ..] = &arguments[..] else {
        return Err("INDEX BASE QUERIES [COUNT [LIST,LIST,.. [KIND]]]".into());
    };
    let index = Index::open(Path::new(index), &OpenOptions::default())?;
    let (base, queries) = (Vectors::read(base)?, Vectors::read(queries)?);
    let count = rest.first().map_or(Ok(200), |count| count.parse())?;
    let lists = rest.get(1).map_or("64", String::as_str).split(',');
    let lists: Vec<usize> = lists.map(str::parse).collect::<Result<_, _>>()?;
    println!(
        "{:<16} {:>5} {:>7} {:>7} {:>8} {:>8} {:>7} {:>7}",
        "rows", "list", "recall", "reads", "codes", "us CPU", "ms", "QPS"
    );
    let only = rest.get(2).map_or("", String::as_str);
    for cell in cells(&base, &queries, count).into_iter().filter(|c| c.name.contains(only)) {
        let all: Vec<usize> = (0..base.len()).collect();
        let rows = cell.rows.as_ref().unwrap_or(&all);
        let truth: Vec<f32> =
            cell.queries.iter().map(|&q| kth(&base, rows, queries.row(q))).collect();
        let allow = match &cell.rows {
            None => None,
            Some(rows) => {
                let rows: Vec<RowId> = rows.iter().map(|&row| RowId(row as u64)).collect();
                Some(Arc::new(index.allow_rows(&rows)?))
            }
        };
        let bytes: Vec<u8> =
            cell.queries.iter().flat_map(|&q| queries.row(q).iter().copied()).collect();
        let set = VectorSet::new(&bytes, queries.dim, VectorType::U8)?;
        for &list in &lists {
            report(&index, &cell.name, set, list, allow.clone(), (&truth, rows.len()))?;
        }
    }
    Ok(())
}

fn report(
    index: &Index,
    name: &str,
    queries: VectorSet<'_>,
    list: usize,
    allow: Option<Arc<AllowSet>>,
    (truth, rows): (&[f32], usize),
) -> Result<(), Failure> {
    let options = BatchOptions { threads: 2, in_flight: 1, allow };
    let params = SearchParams { k: K, list, ..SearchParams::default() };
    index.search_batch(queries, &params, &options)?;
    let from = Instant::now();
    let answers = index.search_batch(queries, &params, &options)?;
    let took = from.elapsed().as_secs_f64();
    let (mut found, mut reads, mut codes, mut compute, mut latency) = (0, 0, 0, 0, 0);
    for (answer, kth) in answers.iter().zip(truth) {
        found += answer.hits.iter().filter(|hit| hit.distance <= *kth).count();
        reads += answer.stats.reads + answer.stats.resident_pages;
        codes += answer.stats.code_distances;
        compute += answer.stats.compute_ns;
        latency += answer.stats.latency_ns;
    }
    let n = answers.len() as f64;
    println!(
        "{name:<16} {list:>5} {:>7.4} {:>7.1} {:>8.0} {:>8.0} {:>7.2} {:>7.0}",
        found as f64 / (n * rows.min(K) as f64),
        reads as f64 / n,
        codes as f64 / n,
        compute as f64 / n / 1e3,
        latency as f64 / n / 1e6,
        n / took,
    );
    Ok(())
}
