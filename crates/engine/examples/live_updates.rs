//! How fast rows are linked, what a checkpoint writes, and what recall is left.
//!
//! `cargo run --release -p pipeann-engine --example live_updates -- BASE QUERIES ROWS INSERTS
//! [DIR [THREADS [resident] [exact] [small-cache]]]`
//!
//! BASE and QUERIES are files of u8 vectors behind two u32, rows and dimension. Builds an index
//! of ROWS rows in DIR (or a temporary directory; indexes that stand there are taken), inserts the next INSERTS, deletes as many of
//! the first ones, consolidates and checkpoints, and compares with a fresh build at equal lists.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use pipeann_engine::build::{BuildOptions, Silent, build};
use pipeann_engine::distance::QueryDistance;
use pipeann_engine::index::{Answer, Index, OpenOptions, Resident};
use pipeann_engine::memory::Accountant;
use pipeann_engine::search::SearchParams;
use pipeann_engine::types::{Metric, RowId, VectorSet, VectorType};
use pipeann_engine::update::{LiveIndex, LiveOptions};

type Failure = Box<dyn std::error::Error>;

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

    fn row(&self, row: usize) -> &[u8] {
        &self.bytes[row * self.dim..(row + 1) * self.dim]
    }
}

fn build_rows(base: &Vectors, rows: std::ops::Range<usize>, dir: &Path) -> Result<(), Failure> {
    let bytes = &base.bytes[rows.start * base.dim..rows.end * base.dim];
    let set = VectorSet::new(bytes, base.dim, VectorType::U8)?;
    let report = build(set, dir, &BuildOptions::new(Metric::L2), &Silent, &AtomicBool::new(false))?;
    println!("built {} rows, {} bytes on disk", rows.len(), report.disk_bytes);
    Ok(())
}

fn options() -> OpenOptions {
    OpenOptions { accountant: Accountant::new(None), ..OpenOptions::default() }
}

/// Recall@10 and reads per query at some lists; `offset` is added to the rows of answers.
fn recall(
    name: &str,
    queries: &Vectors,
    truth: &[Vec<u64>],
    offset: u64,
    search: impl Fn(&[u8], &SearchParams) -> Answer,
) {
    for list in [20, 40, 80] {
        let params = SearchParams { k: 10, list, ..SearchParams::default() };
        let (mut found, mut reads) = (0, 0);
        for (q, truth) in truth.iter().enumerate() {
            let answer = search(queries.row(q), &params);
            found += answer.hits.iter().filter(|h| truth.contains(&(h.row.0 + offset))).count();
            reads += answer.stats.reads + answer.stats.resident_pages;
        }
        let (recall, reads) =
            (found as f64 / (truth.len() * 10) as f64, reads as f64 / truth.len() as f64);
        println!("{name}: list {list}, recall@10 {recall:.4}, reads {reads:.1}");
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base, queries, rows, inserts, rest @ ..] = &arguments[..] else {
        return Err(
            "BASE QUERIES ROWS INSERTS [DIR [THREADS [resident] [exact] [small-cache]]]".into()
        );
    };
    let (base, queries) = (Vectors::read(base)?, Vectors::read(queries)?);
    let (rows, inserts): (usize, usize) = (rows.parse()?, inserts.parse()?);
    let threads: usize = rest.get(1).map_or(Ok(1), |t| t.parse())?;
    let temporary = tempfile::tempdir()?;
    let dir = rest.first().map_or(temporary.path(), Path::new);
    let (live_dir, fresh_dir) = (dir.join("live"), dir.join("fresh"));
    let kept = inserts..rows + inserts;
    let truth: Vec<Vec<u64>> = (0..300)
        .map(|q| {
            let distance = QueryDistance::new(Metric::L2, VectorType::U8, queries.row(q));
            let mut all: Vec<(f32, u64)> =
                kept.clone().map(|i| (distance.distance(base.row(i)), i as u64)).collect();
            all.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
            all.into_iter().take(10).map(|(_, row)| row).collect()
        })
        .collect();
    if !fresh_dir.exists() {
        build_rows(&base, kept, &fresh_dir)?;
    }
    let fresh = Index::open(&fresh_dir, &options())?;
    recall("fresh", &queries, &truth, inserts as u64, |q, p| {
        fresh.search(q, p, None).expect("the index is sound")
    });
    if !live_dir.exists() {
        build_rows(&base, 0..rows, &live_dir)?;
    }
    let has = |word: &str| rest.iter().any(|r| r == word);
    let resident = if has("resident") { Resident::All } else { Resident::None };
    let exact_prunes = has("exact");
    // A cache for a tenth of a small index is what the default is for a large one.
    let cache_bytes = if has("small-cache") { 1 << 20 } else { 32 << 20 };
    let open = OpenOptions { resident, ..options() };
    let index = LiveIndex::open(
        &live_dir,
        LiveOptions { open, exact_prunes, cache_bytes, ..LiveOptions::default() },
    )?;
    let start = Instant::now();
    let next = AtomicUsize::new(rows);
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                loop {
                    let row = next.fetch_add(1, Ordering::Relaxed);
                    if row >= rows + inserts {
                        return;
                    }
                    index.insert(RowId(row as u64), base.row(row)).expect("the row is new");
                }
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let pending = index.pending_bytes() as f64 / inserts as f64;
    println!(
        "inserted {inserts} rows on {threads} threads: {:.0} rows/s, {pending:.0} bytes of memory each",
        inserts as f64 / seconds
    );
    let start = Instant::now();
    let report = index.checkpoint(1)?;
    println!(
        "checkpoint: {:.2} s, {:.0} bytes written for each row, {report:?}",
        start.elapsed().as_secs_f64(),
        report.bytes_written as f64 / inserts as f64
    );
    for row in 0..inserts {
        index.delete(RowId(row as u64))?;
    }
    let search = |q: &[u8], p: &SearchParams| index.search(q, p, None).expect("the index is sound");
    recall("with tombstones", &queries, &truth, 0, search);
    let start = Instant::now();
    while !index.consolidate(1000)?.finished {}
    println!("consolidated in {:.2} s", start.elapsed().as_secs_f64());
    recall("consolidated", &queries, &truth, 0, search);
    let report = index.checkpoint(2)?;
    println!("checkpoint: {report:?}");
    recall("folded", &queries, &truth, 0, search);
    Ok(())
}
