//! `pipeann raw --index`: what the device gives, by random page reads of an index's own segment files
//! through the same queues that searches use.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_engine::index::Index;
use pipeann_engine::io::{Completion, QueueOptions, Wait};
use pipeann_engine::search::PageSource;
use pipeann_engine::types::{PageId, SplitMix64};
use serde_json::json;

use crate::measure::{CpuTime, Latency, rounded};
use crate::opening::IndexArgs;
use crate::table::{print_json, print_pairs};
use pipeann_engine::memory::MemoryLimit;

/// Nobody measures for longer.
const LONGEST: Duration = Duration::from_secs(86_400);

/// What to read, and how.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    index: IndexArgs,
    /// Reads in flight on each thread
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    depth: u16,
    /// Threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// How long to read
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// Decides which pages are read
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &MeasureArgs) -> Result<()> {
    let length = Duration::try_from_secs_f64(args.seconds).context("--seconds")?;
    ensure!(length <= LONGEST, "--seconds is at most a day");
    let index = args.index.open(MemoryLimit::Floor)?;
    // Codes stream in behind the opening and would compete for the device.
    index.wait_resident()?;
    let cpu = CpuTime::now();
    let started = Instant::now();
    let work = |thread: u16| {
        let numbers = SplitMix64::new(args.seed.wrapping_mul(1 << 20) + u64::from(thread));
        read_pages(&index, args.depth.into(), args.index.reading.sqpoll, numbers, started + length)
    };
    let parts = std::thread::scope(|s| {
        let workers: Vec<_> = (0..args.threads).map(|t| s.spawn(move || work(t))).collect();
        workers
            .into_iter()
            .map(|w| w.join().expect("a reading thread does not panic"))
            .collect::<Result<Vec<_>>>()
    })?;
    let wall_s = started.elapsed().as_secs_f64();
    let cpu = CpuTime::now().since(cpu);
    let mut times: Vec<u64> = parts.into_iter().flatten().collect();
    let reads = times.len() as f64;
    let latency = Latency::of(&mut times);
    let reads_per_s = reads / wall_s;
    let cpu_us = cpu.total_us() / reads.max(1.0);
    let page_bytes = index.page_bytes();
    if args.json {
        return print_json(&json!({
            "reads_per_s": rounded(reads_per_s, 1), "mean_us": rounded(latency.mean_us, 2),
            "p50_us": rounded(latency.p50_us, 2), "p99_us": rounded(latency.p99_us, 2),
            "cpu_us_per_read": rounded(cpu_us, 3), "reads": times.len(), "depth": args.depth,
            "threads": args.threads, "page_bytes": page_bytes,
            "direct": !args.index.reading.buffered, "backend": index.backend().name(),
        }));
    }
    print_pairs(&[
        ("reads/s", format!("{reads_per_s:.0} of {page_bytes} bytes")),
        ("mean", format!("{:.1} us", latency.mean_us)),
        ("p99", format!("{:.1} us", latency.p99_us)),
        ("CPU", format!("{cpu_us:.2} us a read")),
        ("in flight", format!("{} on each of {} threads", args.depth, args.threads)),
        ("backend", index.backend().name().to_owned()),
    ])
}

/// Keeps `depth` random reads in flight until `end`. Returns the time of each in nanoseconds.
fn read_pages(
    index: &Index,
    depth: usize,
    sqpoll: bool,
    mut numbers: SplitMix64,
    end: Instant,
) -> Result<Vec<u64>> {
    let page_bytes = index.page_bytes();
    let mut queue = index.backend().queue(&QueueOptions {
        depth,
        buffers: depth,
        buffer_bytes: page_bytes,
        sqpoll,
        wait: Wait::Sleep,
    })?;
    let mut times = Vec::with_capacity(1 << 20);
    let mut completions: Vec<Completion> = Vec::with_capacity(depth);
    let mut pushed = vec![end; depth];
    let mut free: Vec<u64> = (0..depth as u64).collect();
    let mut ended = false;
    loop {
        let now = Instant::now();
        ended = ended || now >= end;
        while !ended && let Some(tag) = free.pop() {
            let buffer = queue.take_buffer().context("as many buffers as reads in flight")?;
            let page = PageId(numbers.rest_of(index.pages().into()) as u32);
            let (device, offset) = index.locate(page);
            queue.push_read(device, offset, page_bytes, buffer, tag)?;
            pushed[tag as usize] = now;
        }
        if queue.in_flight() == 0 {
            return Ok(times);
        }
        completions.clear();
        queue.wait(&mut completions)?;
        let now = Instant::now();
        for c in &completions {
            let read = c.result.as_ref().map_err(Clone::clone);
            read.context("a page cannot be read")?;
            times.push((now - pushed[c.tag as usize]).as_nanos() as u64);
            queue.return_buffer(c.buffer);
            free.push(c.tag);
        }
    }
}
