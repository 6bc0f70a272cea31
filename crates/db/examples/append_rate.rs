//! Appends per second at each level of the log, with 1, 8 and 32 threads.
//!
//! `cargo run --release --example append_rate -- DIRECTORY [SECONDS]`: the directory says which
//! disk is measured. Levels take turns, three rounds; each line is one run. `probe` is the disk
//! alone: one append of the same bytes and its sync after the other. `replay` reads back, from
//! memory mostly, what the line before it wrote.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_db::disk::{Disk, RealDisk};
use pipeann_db::ids::Seq;
use pipeann_db::wal::{Level, Log, LogId, LogOptions, RecordKind};

const PAYLOAD_BYTES: usize = 600;
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let root = PathBuf::from(arguments.next().ok_or("name a directory on the disk to measure")?);
    let seconds = arguments.next().map_or(Ok(2.0), |s| s.parse())?;
    let time = Duration::from_secs_f64(seconds);
    let dir = tempfile::tempdir_in(root)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(dir.path())?);
    println!("{:>8} {:>7} {:>12} {:>12}", "level", "threads", "appends/s", "mean us");
    for round in 0..ROUNDS {
        probe(&disk, round, time)?;
        for threads in [1, 8, 32] {
            for level in [Level::Sync, Level::Group { delay_ms: 2 }, Level::None] {
                let name = format!("{}-{threads}-{round}", level.name());
                let options = LogOptions { level, ..LogOptions::default() };
                let log = Log::create(disk.clone(), &name, LogId([1; 16]), Seq(1), options)?;
                let begun = Instant::now();
                std::thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| {
                            while begun.elapsed() < time {
                                let ticket = log.submit(RecordKind::Put, &[7; PAYLOAD_BYTES]);
                                log.wait(ticket.expect("a submission")).expect("an append");
                            }
                        });
                    }
                });
                report(level.name(), threads, log.last().0, begun.elapsed());
                let begun = Instant::now();
                let read = log.replay(Seq(1))?.try_fold(0, |count, r| r.map(|_| count + 1))?;
                report("replay", 1, read, begun.elapsed());
            }
        }
    }
    Ok(())
}

fn probe(
    disk: &Arc<dyn Disk>,
    round: usize,
    time: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    let file = disk.create(&format!("probe-{round}"))?;
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < time {
        file.append(&[7; PAYLOAD_BYTES + 48])?;
        file.sync()?;
        count += 1;
    }
    report("probe", 1, count, begun.elapsed());
    Ok(())
}

fn report(name: &str, threads: usize, appends: u64, time: Duration) {
    let rate = appends as f64 / time.as_secs_f64();
    println!("{name:>8} {threads:>7} {rate:>12.0} {:>12.1}", threads as f64 * 1e6 / rate);
}
