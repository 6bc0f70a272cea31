//! `pipeann-lab updates drift`: rows of another kind than those that the index was built of.
//!
//! `split` orders a file so that the rows of some clusters come first; an index is built of
//! these, and `drift` inserts the others.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, ensure};
use clap::Args;
use pipeann_cli::table::{count, print_json, print_line};
use pipeann_cli::truth::Truth;
use pipeann_cli::vectors_file::{VectorsFile, VectorsWriter, check_same_shape};
use pipeann_engine::quant::{CodeOptions, Codebook};
use pipeann_engine::types::{Metric, VectorSet};
use pipeann_server::interrupt;
use serde_json::json;

use super::curve::{K, curve, print};
use super::load::{LinkLoad, LinkLoadArgs, search_beside};
use super::opening::LiveIndexArgs;

/// Insert the rows of a file that follow those in an index, and measure
///
/// The index holds the first rows of the base file, and is changed.
#[derive(Debug, Args)]
pub(crate) struct DriftArgs {
    #[command(flatten)]
    index: LiveIndexArgs,
    /// The vectors
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Queries, of the same type and dimension
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Exact truth of the queries among all vectors
    #[arg(long, value_name = "FILE")]
    truth: PathBuf,
    /// Rows inserted between two looks whether upkeep is due
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    step: u32,
    /// Candidate lists
    #[arg(long, value_delimiter = ',', default_value = "10,12,15,20,25,30,40")]
    list: Vec<usize>,
    #[command(flatten)]
    load: LinkLoadArgs,
    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &DriftArgs) -> Result<()> {
    let (base, queries) = (VectorsFile::open(&args.base)?, VectorsFile::open(&args.queries)?);
    let truth = Truth::open(&args.truth)?;
    truth.check(queries.rows(), K)?;
    let index = args.index.open()?;
    for file in [&base, &queries] {
        check_same_shape(file, (index.dim(), index.vector_type()), &args.index.index.index)?;
    }
    let (first, all) = (index.rows(), base.rows() as u64);
    ensure!(first < all, "{} has no rows behind those in the index", args.base.display());
    let mut load = LinkLoad::new(&args.load, &index);
    let (first_live, done, cancel) =
        (AtomicU64::new(0), AtomicBool::new(false), interrupt::flag()?);
    let (set, asked) = (base.set(), queries.set());
    let searched = std::thread::scope(|s| {
        let searcher = s.spawn(|| search_beside(&index, asked, &first_live, &done));
        let mut insert = || -> Result<()> {
            for from in (first..all).step_by(args.step as usize) {
                interrupt::check(&cancel)?;
                let until = (from + u64::from(args.step)).min(all);
                load.insert(from..until, |row| set.row(row as usize))?;
                load.upkeep()?;
            }
            Ok(())
        };
        let inserted = insert();
        done.store(true, Ordering::Relaxed);
        let searched = searcher.join().expect("searches do not panic");
        inserted.and(searched)
    })?;
    let load = load.finish()?;
    let curve = curve(&args.index.index, asked, &truth, 0, &args.list)?;
    let result = json!({
        "first": first, "rows": all, "searched_beside": searched, "load": load, "curve": curve,
    });
    print(&result, args.json)
}

/// Order the first rows of a file by clusters: those of some clusters first, then all others
///
/// The clusters are those nearest to one of 256, as many as hold the rows asked for; within both
/// parts rows stay in their order.
#[derive(Debug, Args)]
pub(crate) struct SplitArgs {
    /// The vectors
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Rows of the file to take
    #[arg(long)]
    rows: usize,
    /// Rows that come first
    #[arg(long)]
    first: usize,
    /// Where to write them, in the format that the extension names
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command `split`.
pub(crate) fn split(args: &SplitArgs) -> Result<()> {
    let base = VectorsFile::open(&args.base)?;
    let set = base.first(args.rows);
    ensure!(args.first < set.rows(), "--first must be below the {} rows taken", set.rows());
    let cluster = clusters(set);
    let mut by_cluster: Vec<usize> = (0..set.rows()).collect();
    by_cluster.sort_by_key(|&row| cluster[row]);
    let mut among_first = vec![false; set.rows()];
    by_cluster[..args.first].iter().for_each(|&row| among_first[row] = true);
    let (first, others): (Vec<usize>, Vec<usize>) =
        (0..set.rows()).partition(|&row| among_first[row]);
    let mut out = VectorsWriter::create(&args.out, set.rows(), set.dim(), set.vector_type())?;
    for row in first.into_iter().chain(others) {
        out.write_row(set.row(row))?;
    }
    out.finish()?;
    if args.json {
        return print_json(&json!({
            "first": args.first, "rows": set.rows(), "out": args.out,
        }));
    }
    let (first, rows) = (count(args.first as u64), count(set.rows() as u64));
    print_line(&format!("{first} of {rows} rows come first: {}", args.out.display()))
}

/// The cluster of each row, numbered by the distance of its centre from that of the first row's.
fn clusters(set: VectorSet<'_>) -> Vec<usize> {
    // A code of one byte is the number of the nearest of 256 centroids of whole vectors.
    let options = CodeOptions { code_bytes: 1, ..CodeOptions::for_dim(set.dim()) };
    let book = Codebook::train(set, Metric::L2, &options);
    let mut codes = vec![0; set.rows()];
    book.encode_all(set, &mut codes);
    let centre = |code: u8| {
        let mut centre = vec![0.0; set.dim()];
        book.decode(&[code], &mut centre);
        centre
    };
    let from = centre(codes[0]);
    let distance =
        |code: u8| -> f32 { centre(code).iter().zip(&from).map(|(x, y)| (x - y) * (x - y)).sum() };
    let mut order: Vec<(f32, u8)> = (0..=u8::MAX).map(|code| (distance(code), code)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &(_, code))| place[usize::from(code)] = at);
    codes.into_iter().map(|code| place[usize::from(code)]).collect()
}
