//! What a range search finds and reads, by how many rows lie within, beside searches for the nearest.
//!
//! ```text
//! cargo run --release --example range_search -- INDEX QUERIES.u8bin|.fbin TRUTH.bin
//! ```
//!
//! The far end of each query's range lies just behind its neighbour of a rank.

mod common;

use std::error::Error;
use std::ops::Bound;
use std::path::PathBuf;

use common::{Table, Truth};
use pipeann_engine::index::{BatchOptions, Index, OpenOptions};
use pipeann_engine::search::{DistanceRange, PageSource, SearchParams};
use pipeann_engine::types::VectorSet;

/// Queries that are asked.
const QUERIES: usize = 1000;
/// Most rows that are wanted of a range.
const LIMIT: usize = 1000;
/// Distances of the truth were added up in another order.
const ROUNDING: f32 = 1e-5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("the first argument is an index")?);
    let queries = Table::read(&args.next().ok_or("the second one is queries")?)?;
    let truth = Truth(Table::read(&args.next().ok_or("the third one is their truth")?)?);
    let index = Index::open(&path, &OpenOptions::default())?;
    let set = VectorSet::new(&queries.bytes, queries.columns, index.view().layout.vector_type())?;
    let asked = QUERIES.min(queries.rows);
    println!("{:>12}  {:>7}  {:>7}", "nearest, k", "recall", "reads");
    for k in [10, 30, 90] {
        let params = SearchParams { k, list: 64.max(2 * k), ..SearchParams::default() };
        let few = VectorSet::new(
            &queries.bytes[..asked * set.row(0).len()],
            set.dim(),
            set.vector_type(),
        )?;
        let answers = index.search_batch(few, &params, &BatchOptions::default())?;
        let (mut right, mut reads) = (0, 0);
        for (query, answer) in answers.iter().enumerate() {
            let wanted: Vec<u64> = truth.rows(query).take(k).collect();
            right += answer.hits.iter().filter(|hit| wanted.contains(&hit.row.0)).count();
            reads += answer.stats.reads;
        }
        let each = asked as f64;
        println!("{k:12}  {:7.4}  {:7.1}", right as f64 / each / k as f64, reads as f64 / each);
    }
    println!("{:>12}  {:>7}  {:>7}", "within", "found", "reads");
    for rank in [0, 1, 5, 10, 30, 60, 90] {
        let (mut found, mut within_all, mut reads) = (0, 0, 0);
        for query in 0..asked {
            let distances: Vec<f32> = truth.distances(query).collect();
            let far = match rank {
                0 => distances[0] * (1.0 - ROUNDING),
                _ => distances[rank - 1] * (1.0 + ROUNDING),
            };
            let within = DistanceRange { from: Bound::Unbounded, to: Bound::Excluded(far) };
            let params = SearchParams { k: LIMIT, list: LIMIT, within, ..SearchParams::default() };
            let answer = index.search(set.row(query), &params, None)?;
            let wanted: Vec<u64> = truth.rows(query).take(rank).collect();
            found += answer.hits.iter().filter(|hit| wanted.contains(&hit.row.0)).count();
            within_all += wanted.len();
            reads += answer.stats.reads;
        }
        let share = found as f64 / within_all.max(1) as f64;
        println!("{rank:12}  {share:7.4}  {:7.1}", reads as f64 / asked as f64);
    }
    Ok(())
}
