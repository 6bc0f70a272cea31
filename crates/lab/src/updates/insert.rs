//! `pipeann-lab updates insert`: rows of a file linked into a built index.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_cli::measure::{CpuTime, peak_rss_bytes, rounded};
use pipeann_cli::opening::{devices_json, wait_copied};
use pipeann_cli::policy::PolicyArgs;
use pipeann_cli::table::{bytes, count, print_json, print_pairs};
use pipeann_cli::vectors_file::{VectorsFile, check_same_shape};
use pipeann_engine::search::SearchParams;
use pipeann_engine::update::LiveIndex;
use pipeann_server::interrupt;
use serde_json::{Value, json};

use super::beside::{Beside, BesideLatencies};
use super::linking::{Linked, Linking};
use super::opening::LiveIndexArgs;

/// Link rows of a file into a built index, and measure rate, bytes written and searches beside
///
/// Row i of the file gets the row id i. The directory is changed: by each checkpoint, and by one
/// at the end unless --discard is given.
#[derive(Debug, Args)]
pub(crate) struct InsertArgs {
    #[command(flatten)]
    index: LiveIndexArgs,
    /// Vectors: .u8bin, .fbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// First row to link [default: the number of rows in the index]
    #[arg(long, value_name = "ROW")]
    from: Option<usize>,
    /// Rows to link [default: all that follow]
    #[arg(long, value_name = "ROWS")]
    count: Option<usize>,
    /// Threads that link
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Link so many rows a second at most
    #[arg(long, value_name = "ROWS")]
    rate: Option<f64>,
    /// Give way to other threads: niceness of the threads that link, 0 to 19
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=19))]
    nice: u8,
    /// Write a checkpoint whenever so many rows were linked since the last
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    dirty_rows: Option<u32>,
    /// Write no checkpoint at the end
    #[arg(long)]
    discard: bool,
    /// Queries to search meanwhile, one after the other on a thread of its own
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// With queries: search so long alone, before and again after the rows are linked
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    alone: f64,
    /// Length of the candidate list of these searches
    #[arg(long, default_value_t = 40)]
    list: usize,
    /// Results for each query
    #[arg(long, default_value_t = 10)]
    k: usize,
    #[command(flatten)]
    policy: PolicyArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Searches alone, and beside the rows being linked.
struct Latencies {
    alone: BesideLatencies,
    beside: BesideLatencies,
}

/// Runs the command.
pub(crate) fn run(args: &InsertArgs) -> Result<()> {
    ensure!(args.rate.is_none_or(|r| r > 0.0 && r.is_finite()), "--rate must be above 0");
    let index = args.index.open()?;
    let file = VectorsFile::open(&args.base)?;
    check_same_shape(&file, (index.dim(), index.vector_type()), &args.index.index.index)?;
    let linking = linking(args, &index, &file)?;
    let queries = args.queries.as_ref().map(|path| VectorsFile::open(path)).transpose()?;
    let beside = queries.as_ref().map(|queries| beside(args, &index, queries)).transpose()?;
    let cancel = interrupt::flag()?;
    let (mut linked, cpu, latencies) = measure(&linking, beside.as_ref(), args.alone, &cancel)?;
    let link_s = linked.wall_s - linked.checkpoint_s();
    if !args.discard {
        linking.checkpoint(&mut linked)?;
    }
    let rates = Rates { link_s, cpu };
    if args.json {
        let mut all = json(args, &index, &linked, &rates, latencies.as_ref());
        let backend = args.index.index.reading.by.backend()?;
        wait_copied(backend.as_ref());
        all["devices"] = devices_json(backend.as_ref());
        return print_json(&all);
    }
    print_pairs(&words(&linked, &rates, latencies.as_ref()))
}

fn linking<'a>(
    args: &InsertArgs,
    index: &'a LiveIndex,
    file: &'a VectorsFile,
) -> Result<Linking<'a>> {
    let from = match args.from {
        Some(row) => row,
        None => usize::try_from(index.rows()).context("more rows than a file has")?,
    };
    let left = file.rows().checked_sub(from).filter(|&rows| rows > 0);
    let left = left.with_context(|| {
        format!("{} has {} rows, none from row {from}", args.base.display(), file.rows())
    })?;
    let rows = from..from + args.count.unwrap_or(left).min(left);
    Ok(Linking {
        index,
        vectors: file.set(),
        rows,
        threads: args.threads.into(),
        rate: args.rate,
        nice: args.nice,
        dirty_rows: args.dirty_rows.map(|n| n as usize),
    })
}

fn beside<'a>(
    args: &InsertArgs,
    index: &'a LiveIndex,
    queries: &'a VectorsFile,
) -> Result<Beside<'a>> {
    check_same_shape(queries, (index.dim(), index.vector_type()), &args.index.index.index)?;
    let policy = args.policy.policy()?;
    let params = SearchParams { k: args.k, list: args.list, policy, ..SearchParams::default() };
    Ok(Beside { index, queries: queries.set(), params })
}

/// Links the rows, and searches before, meanwhile and after. The CPU time is that of the part in
/// which rows were linked.
fn measure(
    linking: &Linking<'_>,
    beside: Option<&Beside<'_>>,
    alone_s: f64,
    cancel: &AtomicBool,
) -> Result<(Linked, CpuTime, Option<Latencies>)> {
    let alone = Duration::try_from_secs_f64(alone_s).context("--alone")?;
    let Some(beside) = beside else {
        let cpu = CpuTime::now();
        let linked = linking.run(cancel)?;
        return Ok((linked, CpuTime::now().since(cpu), None));
    };
    let before = beside.alone(alone)?;
    let cpu = CpuTime::now();
    let ended = AtomicBool::new(false);
    let (linked, searched) = std::thread::scope(|s| {
        let searches = s.spawn(|| beside.until(&ended));
        let linked = linking.run(cancel);
        ended.store(true, Ordering::Relaxed);
        (linked, searches.join().expect("a searching thread does not panic"))
    });
    let (linked, searched) = (linked?, searched?);
    let cpu = CpuTime::now().since(cpu);
    let alone = before.join(beside.alone(alone)?);
    Ok((linked, cpu, Some(Latencies { alone, beside: searched })))
}

/// Times of the part in which rows were linked.
struct Rates {
    /// Without checkpoints.
    link_s: f64,
    cpu: CpuTime,
}

fn json(
    args: &InsertArgs,
    index: &LiveIndex,
    linked: &Linked,
    rates: &Rates,
    latencies: Option<&Latencies>,
) -> Value {
    let rows = linked.rows.max(1) as f64;
    let last = linked.checkpoints.last();
    let each = |of: fn(&(pipeann_engine::update::CheckpointReport, f64)) -> u64| {
        linked.checkpoints.iter().map(of).sum::<u64>()
    };
    json!({
        "workload": "insert", "rows": linked.rows, "threads": args.threads,
        "memory_limit": args.index.memory_limit.to_string(), "rate": args.rate, "nice": args.nice,
        "wall_s": rounded(linked.wall_s, 3), "link_s": rounded(rates.link_s, 3),
        "rows_per_s": rounded(rows / rates.link_s, 1),
        "rows_per_s_with_checkpoints": rounded(rows / linked.wall_s, 1),
        "insert_us": rounded(linked.insert_s * 1e6 / rows, 1),
        "cpu_us": rounded(rates.cpu.total_us() / rows, 1),
        "user_us": rounded(rates.cpu.user_us / rows, 1),
        "sys_us": rounded(rates.cpu.sys_us / rows, 1),
        "dirty_rows": args.dirty_rows, "checkpoints": linked.checkpoints.len(),
        "checkpoint_s": rounded(linked.checkpoint_s(), 3),
        "checkpoint_bytes": linked.bytes_written(), "log_bytes": linked.log_bytes,
        "bytes_per_row":
            rounded((linked.bytes_written() + linked.log_bytes) as f64 / rows, 1),
        "changed_pages": each(|(r, _)| r.changed_pages),
        "copied_pages": each(|(r, _)| r.copied_pages),
        "pruned_lists": each(|(r, _)| r.pruned_lists),
        "checkpoint_reads": each(|(r, _)| r.page_reads),
        "disk_bytes": last.map(|(r, _)| r.disk_bytes),
        "pending_bytes": linked.pending_bytes, "live_rows": index.rows(),
        "peak_rss_bytes": peak_rss_bytes(),
        "list": args.list, "search_alone": latencies.map(|l| l.alone.json()),
        "search_beside": latencies.map(|l| l.beside.json()),
    })
}

fn words(
    linked: &Linked,
    rates: &Rates,
    latencies: Option<&Latencies>,
) -> Vec<(&'static str, String)> {
    let rows = linked.rows.max(1) as f64;
    let mut pairs = vec![
        ("rows", count(linked.rows as u64)),
        ("rows/s", format!("{:.0}", rows / rates.link_s)),
        ("with checkpoints", format!("{:.0} rows/s", rows / linked.wall_s)),
        ("CPU", format!("{:.0} us a row", rates.cpu.total_us() / rows)),
        (
            "checkpoints",
            format!("{}, {:.1} s together", linked.checkpoints.len(), linked.checkpoint_s()),
        ),
        (
            "written",
            format!(
                "{:.0} bytes a row in files, {:.0} in a log",
                linked.bytes_written() as f64 / rows,
                linked.log_bytes as f64 / rows
            ),
        ),
        ("pending", bytes(linked.pending_bytes)),
    ];
    if let Some(latencies) = latencies {
        pairs.push(("search alone", latencies.alone.words()));
        pairs.push(("search beside", latencies.beside.words()));
    }
    pairs
}
