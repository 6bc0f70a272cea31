//! Searches a disk index, one searcher per thread, and prints one line per list length.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use diskann::utils::VectorRepr;
use diskann_disk::data_model::{AdHoc, CachingStrategy};
use diskann_disk::search::provider::disk_provider::DiskIndexSearcher;
use diskann_disk::search::provider::disk_vertex_provider_factory::DiskVertexProviderFactory;
use diskann_disk::search::search_mode::SearchMode;
use diskann_disk::storage::disk_index_reader::DiskIndexReader;
use diskann_providers::storage::FileStorageProvider;
use diskann_vector::distance::Metric;

use crate::files::{Element, Truth, read_vectors, spent};

/// Which index to search, and how.
#[derive(Args)]
pub struct Options {
    /// Directory of the index.
    #[arg(long)]
    index: PathBuf,
    #[arg(long)]
    queries: PathBuf,
    #[arg(long)]
    truth: PathBuf,
    #[arg(long, default_value_t = 10)]
    k: usize,
    #[arg(long, value_delimiter = ',', required = true)]
    list: Vec<u32>,
    /// Beam width.
    #[arg(long, default_value_t = 4)]
    width: usize,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Queries taken from the front of the file; 0 for all.
    #[arg(long, default_value_t = 0)]
    limit: usize,
}

impl Options {
    /// Whether the vectors are u8.
    pub fn is_u8(&self) -> bool {
        self.queries.extension().is_some_and(|e| e == "u8bin")
    }
}

/// What one query gave.
struct Answer {
    ids: Vec<u32>,
    latency: Duration,
    reads: u32,
}

fn open<T: VectorRepr>(index: &Path) -> Result<DiskIndexSearcher<AdHoc<T>>> {
    let file = |suffix: &str| index.join(format!("ann_{suffix}")).to_string_lossy().into_owned();
    let reader = DiskIndexReader::new(
        file("pq_pivots.bin"),
        file("pq_compressed.bin"),
        &FileStorageProvider,
    )?;
    let pages =
        DiskVertexProviderFactory::from_disk_index_path(file("disk.index"), CachingStrategy::None)?;
    Ok(DiskIndexSearcher::new(1, usize::MAX, &reader, pages, Metric::L2, None)?)
}

fn answer<T: VectorRepr>(
    searcher: &DiskIndexSearcher<AdHoc<T>>,
    query: &[T],
    list: u32,
    options: &Options,
) -> Result<Answer> {
    let started = Instant::now();
    let found =
        searcher.search(query, options.k as u32, list, Some(options.width), SearchMode::graph())?;
    Ok(Answer {
        ids: found.results.iter().map(|r| r.vertex_id).collect(),
        latency: started.elapsed(),
        reads: found.stats.query_statistics.total_io_operations,
    })
}

/// Runs all queries at every list length and prints a line for each.
pub fn run<T: VectorRepr + Element + 'static>(options: &Options) -> Result<()> {
    let mut queries = read_vectors::<T>(&options.queries)?;
    if options.limit > 0 {
        queries.truncate(options.limit);
    }
    let truth = Truth::read(&options.truth)?;
    let searchers =
        (0..options.threads).map(|_| open::<T>(&options.index)).collect::<Result<Vec<_>>>()?;
    for &list in &options.list {
        for searcher in &searchers {
            for query in queries.iter().take(100) {
                answer(searcher, query, list, options)?;
            }
        }
        let share = queries.len().div_ceil(options.threads);
        let start = Barrier::new(options.threads);
        let before = spent();
        let clock = Instant::now();
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let workers: Vec<_> = searchers
                .iter()
                .zip(queries.chunks(share))
                .map(|(searcher, part)| {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        part.iter()
                            .map(|query| answer(searcher, query, list, options))
                            .collect::<Result<Vec<_>>>()
                    })
                })
                .collect();
            let join = |w: std::thread::ScopedJoinHandle<'_, _>| w.join().expect("no panic");
            workers.into_iter().map(join).collect::<Result<Vec<_>>>()
        })
        .context("searching")?
        .into_iter()
        .flatten()
        .collect();
        let wall = clock.elapsed().as_secs_f64();
        let after = spent();
        let count = answers.len() as f64;
        let mut times: Vec<f64> = answers.iter().map(|a| a.latency.as_secs_f64() * 1e6).collect();
        times.sort_by(f64::total_cmp);
        let found: Vec<_> = answers.iter().map(|a| a.ids.clone()).collect();
        let line = serde_json::json!({
            "system": "diskann-disk", "list": list, "width": options.width,
            "threads": options.threads, "queries": answers.len(),
            "recall": truth.recall(&found, options.k),
            "qps": count / wall,
            "mean_us": times.iter().sum::<f64>() / count,
            "p50_us": times[(times.len() - 1) / 2],
            "p99_us": times[(times.len() - 1) * 99 / 100],
            "reads": answers.iter().map(|a| f64::from(a.reads)).sum::<f64>() / count,
            "user_us": (after.0 - before.0) * 1e6 / count,
            "sys_us": (after.1 - before.1) * 1e6 / count,
            "cpu_us": (after.0 + after.1 - before.0 - before.1) * 1e6 / count,
        });
        println!("{line}");
    }
    Ok(())
}
