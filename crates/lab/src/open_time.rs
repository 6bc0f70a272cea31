//! `pipeann-lab open-time`: how long it takes from opening an index to its first answer.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_engine::search::SearchParams;
use rustix::fs::{Advice, fadvise};
use serde_json::json;

use pipeann_cli::measure::{peak_rss_bytes, rounded};
use pipeann_cli::opening::IndexArgs;
use pipeann_cli::table::{print_json, print_pairs};
use pipeann_cli::vectors_file::{VectorsFile, check_same_shape};
use pipeann_engine::memory::MemoryLimit;

/// Measure the time from opening an index to its first answer
#[derive(Debug, Args)]
pub(crate) struct FirstAnswerArgs {
    #[command(flatten)]
    index: IndexArgs,
    /// Queries; the first one is searched
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Results
    #[arg(long, default_value_t = 10)]
    k: usize,
    /// Length of the candidate list
    #[arg(long, default_value_t = 32)]
    list: usize,
    /// Drop the index's files from the operating system's cache first
    #[arg(long)]
    cold: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &FirstAnswerArgs) -> Result<()> {
    let file = VectorsFile::open(&args.queries)?;
    let set = file.set();
    let params = SearchParams { k: args.k, list: args.list, ..SearchParams::default() };
    params.validate()?;
    if args.cold {
        drop_from_cache(&args.index.index)?;
    }
    let started = Instant::now();
    let index = args.index.open(MemoryLimit::Floor)?;
    let open = started.elapsed();
    let shape = (index.dim(), index.layout().vector_type());
    check_same_shape(&file, shape, &args.index.index)?;
    let answer = index.search(set.row(0), &params, None)?;
    let first = started.elapsed();
    index.wait_resident()?;
    let resident = started.elapsed();
    ensure!(!answer.hits.is_empty(), "the first search found nothing");
    let us = |t: std::time::Duration| rounded(t.as_secs_f64() * 1e6, 1);
    let rows: Vec<u64> = answer.hits.iter().map(|h| h.row.0).collect();
    if args.json {
        return print_json(&json!({
            "open_us": us(open), "first_answer_us": us(first), "codes_resident_us": us(resident),
            "reads": answer.stats.reads, "k": args.k, "list": args.list, "cold": args.cold,
            "ids": rows, "peak_rss_bytes": peak_rss_bytes(),
        }));
    }
    print_pairs(&[
        ("opened after", format!("{:.0} us", us(open))),
        ("first answer after", format!("{:.0} us ({} reads)", us(first), answer.stats.reads)),
        ("all codes in memory after", format!("{:.0} us", us(resident))),
    ])
}

/// Asks the kernel to forget the cached bytes of all files below `dir`.
fn drop_from_cache(dir: &Path) -> Result<()> {
    let unreadable = || dir.display().to_string();
    for entry in std::fs::read_dir(dir).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.is_dir() {
            drop_from_cache(&path)?;
        } else {
            let file = File::open(&path).with_context(|| path.display().to_string())?;
            file.sync_all().with_context(|| path.display().to_string())?;
            fadvise(&file, 0, None, Advice::DontNeed)
                .with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}
