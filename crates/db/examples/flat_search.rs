//! What vectors without a graph cost: appending, exact search, single vectors, and memory.
//!
//! `cargo run --release -p pipeann-db --example flat_search -- DIRECTORY [ROWS] [DIM] [LIMIT_MIB]`
//!
//! Vectors of u8 that look like chance, appended in batches of 1,000 and flushed when asked for,
//! under a memory limit kept by the accountant. Needs Linux, which tells the peak of memory.

use std::path::Path;
use std::time::Instant;

use pipeann_db::flat::{FlatOptions, FlatSearch, FlatVectors, VectorPressure};
use pipeann_db::ids::{Metric, RowId, Seq, VectorType};
use pipeann_engine::memory::Accountant;
use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::VectorSet;

const BATCH: u64 = 1000;
const ROUNDS: usize = 7;

type Failure = Box<dyn std::error::Error>;

fn scatter(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn vector(row: u64, out: &mut [u8]) {
    for (part, i) in out.chunks_mut(8).zip(0..) {
        part.copy_from_slice(&scatter(row * 1000 + i + 1).to_le_bytes()[..part.len()]);
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn peak_mib() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|l| l.starts_with("VmHWM")).ok_or("no peak is told")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? / 1024)
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: flat_search DIRECTORY [ROWS] [DIM] [LIMIT_MIB]")?;
    let rows: u64 = arguments.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let dim: usize = arguments.next().map_or(Ok(128), |n| n.parse())?;
    let limit_mib: u64 = arguments.next().map_or(Ok(24), |n| n.parse())?;
    let options = FlatOptions {
        tail_bytes: limit_mib << 19,
        accountant: Accountant::new(Some(limit_mib << 20)),
        ..FlatOptions::new([1; 16], dim, VectorType::U8)
    };
    let flat = FlatVectors::open(&Path::new(&dir).join("flat"), &options)?;
    let (start, mut longest_ms) = (Instant::now(), 0.0f64);
    let mut bytes = vec![0; BATCH as usize * dim];
    for batch in flat.applied().0..rows / BATCH {
        let ids: Vec<_> = (batch * BATCH..(batch + 1) * BATCH).map(RowId).collect();
        ids.iter().zip(bytes.chunks_mut(dim)).for_each(|(row, out)| vector(row.0, out));
        let set = VectorSet::new(&bytes, dim, VectorType::U8)?;
        if flat.append(Seq(batch + 1), &ids, set)? == VectorPressure::Flush {
            let flush = Instant::now();
            flat.flush()?;
            longest_ms = longest_ms.max(flush.elapsed().as_secs_f64() * 1e3);
        }
    }
    flat.flush()?;
    println!(
        "{rows} rows of {dim} u8 under {limit_mib} MiB: appended at {:.2} us a row, longest flush \
         {longest_ms:.0} ms, {} MB on disk",
        start.elapsed().as_secs_f64() * 1e6 / rows as f64,
        flat.disk_bytes() / 1_000_000
    );
    for (queries, threads) in [(1u64, 1), (1, 2), (16, 2)] {
        let mut ms = Vec::new();
        for round in 0..ROUNDS as u64 {
            let wanted: Vec<_> = (0..queries).map(|i| scatter(round * 100 + i) % rows).collect();
            let mut bytes = vec![0; queries as usize * dim];
            wanted.iter().zip(bytes.chunks_mut(dim)).for_each(|(&row, out)| vector(row, out));
            let set = VectorSet::new(&bytes, dim, VectorType::U8)?;
            let start = Instant::now();
            let search = FlatSearch {
                k: 10,
                metric: Metric::L2,
                within: DistanceRange::default(),
                threads,
                from: RowId(0),
            };
            let found = flat.search(set, search, &|_| true)?;
            ms.push(start.elapsed().as_secs_f64() * 1e3);
            for (row, hits) in wanted.iter().zip(&found) {
                assert_eq!((hits[0].row.0, hits[0].distance), (*row, 0.0), "a row finds itself");
            }
        }
        println!("{queries} queries by {threads} threads: {:.1} ms", median(ms));
    }
    let (mut out, mut expected) = (vec![0; dim], vec![0; dim]);
    let start = Instant::now();
    for i in 0..10_000 {
        let row = scatter(i) % rows;
        vector(row, &mut expected);
        assert!(flat.get(RowId(row), &mut out)? && out == expected, "every row is found");
    }
    println!(
        "one vector {:.1} us; peak of memory {} MiB",
        start.elapsed().as_secs_f64() * 100.0,
        peak_mib()?
    );
    Ok(())
}
