//! What rows on disk cost: processor time of inserts, gets and key look-ups, and time to reopen.
//!
//! `cargo run --release -p pipeann-db --example row_store -- DIRECTORY [ROWS] [CACHE_MIB]`
//!
//! Rows of 200 bytes with keys in random order, in batches of 1,000, flushed when the store asks
//! for it. Gets are of ten random rows, keys are looked up one by one; each figure is the median
//! of five rounds. Needs Linux, whose scheduler counts a thread's time.

use std::path::Path;
use std::time::Instant;

use pipeann_db::docstore::{LsmRows, RowCache, RowChange, RowPressure, RowStore, RowStoreOptions};
use pipeann_db::ids::{RowId, Seq};
use pipeann_engine::memory::Accountant;

const BATCH: u64 = 1000;
const ROUNDS: usize = 5;
const GETS: u64 = 20_000;

type Failure = Box<dyn std::error::Error>;

/// Microseconds of processor time of this thread.
fn cpu_us() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split(' ').next().ok_or("schedstat has fields")?.parse::<f64>()? / 1000.0)
}

/// A bijection of 64-bit numbers that looks like chance.
fn scatter(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn key(row: u64) -> [u8; 8] {
    scatter(row).to_be_bytes()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn insert(store: &LsmRows, rows: u64) -> Result<(), Failure> {
    let (cpu, wall, mut flush_us, mut longest_ms) = (cpu_us()?, Instant::now(), 0.0, 0.0f64);
    let mut blobs = vec![[0u8; 184]; BATCH as usize];
    for batch in 0..rows / BATCH {
        let mut changes = Vec::with_capacity(BATCH as usize);
        let keys: Vec<_> = (0..BATCH).map(|i| key(batch * BATCH + i)).collect();
        for (i, blob) in blobs.iter_mut().enumerate() {
            blob.chunks_exact_mut(8).zip(batch * BATCH + i as u64..).for_each(|(part, seed)| {
                part.copy_from_slice(&scatter(seed).to_le_bytes());
            });
        }
        for (i, blob) in blobs.iter().enumerate() {
            let row = RowId(batch * BATCH + i as u64);
            changes.push(RowChange::Put { row, partition: 0, key: &keys[i], blob });
        }
        let start = Instant::now();
        if store.apply(Seq(batch + 1), &changes)? == RowPressure::Flush {
            let flush = cpu_us()?;
            store.flush()?;
            store.compact()?;
            flush_us += cpu_us()? - flush;
            longest_ms = longest_ms.max(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    store.flush()?;
    while store.compact()? {}
    let cpu = (cpu_us()? - cpu) / rows as f64;
    println!(
        "insert: {cpu:.2} us of processor a row, {:.2} of it flushing and compacting; {:.2} us of \
         time; longest flush {longest_ms:.0} ms; {} MB on disk of {} raw",
        flush_us / rows as f64,
        wall.elapsed().as_secs_f64() * 1e6 / rows as f64,
        store.disk_bytes() / 1_000_000,
        rows / 5000
    );
    Ok(())
}

/// Runs `each` on pseudo-random numbers; processor microseconds a call, median of the rounds.
fn timed(mut each: impl FnMut(u64) -> Result<(), Failure>) -> Result<f64, Failure> {
    let mut rounds = Vec::new();
    for round in 0..ROUNDS as u64 {
        let start = cpu_us()?;
        (0..GETS).try_for_each(|i| each(scatter(round * GETS + i + 1)))?;
        rounds.push((cpu_us()? - start) / GETS as f64);
    }
    Ok(median(rounds))
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: row_store DIRECTORY [ROWS] [CACHE_MIB]")?;
    let rows: u64 = arguments.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let cache_mib: u64 = arguments.next().map_or(Ok(32), |n| n.parse())?;
    let dir = Path::new(&dir).join("row_store");
    let accountant = Accountant::process();
    let cache = RowCache::new(&accountant, cache_mib << 20)?;
    let options =
        RowStoreOptions { collection: [1; 16], cache, buffer_bytes: 32 << 20, lock: true };
    if !dir.exists() {
        insert(&LsmRows::open(&dir, &options)?, rows)?;
    }
    let mut reopen_ms = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        drop(LsmRows::open(&dir, &options)?);
        reopen_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let store = LsmRows::open(&dir, &options)?;
    let rows = store.count();
    let mut bytes = 0;
    let ten = timed(|at| {
        let rows: [RowId; 10] = std::array::from_fn(|i| RowId(scatter(at + i as u64) % rows));
        store.get(&rows, &mut |_, blob| bytes += blob.map_or(0, <[u8]>::len))?;
        Ok(())
    })?;
    assert_eq!(bytes as u64, ROUNDS as u64 * GETS * 10 * 184, "every row is found");
    let by_key = timed(|at| {
        let found = store.rows_of_key(&key(at % rows))?;
        assert_eq!(found, [RowId(at % rows)], "every key is found");
        Ok(())
    })?;
    let start = (cpu_us()?, Instant::now());
    let mut scanned = 0u64;
    store.snapshot().scan_rows(std::ops::Bound::Unbounded, usize::MAX, &mut |_| scanned += 1)?;
    assert_eq!(scanned, rows, "the scan sees every row");
    println!(
        "{rows} rows, cache {cache_mib} MiB: ten rows {ten:.1} us, one key {by_key:.1} us, scan \
         {:.2} us a row, reopen {:.1} ms",
        (cpu_us()? - start.0) / rows as f64,
        median(reopen_ms)
    );
    Ok(())
}
