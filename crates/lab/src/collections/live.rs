//! `pipeann-lab collections live`: inserts, deletes and searches on several collections of one
//! database, under one memory limit.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use pipeann_cli::measure::{anonymous_bytes, peak_rss_bytes, rounded, seconds};
use pipeann_cli::table::print_json;
use pipeann_cli::vectors_file::VectorsFile;
use pipeann_db::collection::Collection;
use pipeann_db::schema::PrimaryKey;
use pipeann_engine::memory::Pool;
use pipeann_server::interrupt;
use serde_json::json;

use super::opening::{DatabaseArgs, batch, collection, one, search};

/// Replace rows of all collections of a database while they are searched, and print the memory that
/// it took as one JSON object
///
/// Row i of a collection is row i of its file, written under the key i. Each step upserts a batch of
/// rows under their own keys, deletes some and puts them back; one thread for each collection
/// searches meanwhile.
#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Collections, as NAME=FILE with the vectors that they were filled with
    #[arg(long = "collection", value_name = "NAME=FILE", required = true)]
    collections: Vec<String>,
    /// How long
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    seconds: f64,
    /// Rows of one step
    #[arg(long, value_name = "ROWS", default_value_t = 500)]
    batch: usize,
}

struct LiveLoad {
    name: String,
    file: VectorsFile,
    rows: Arc<Collection>,
    written: AtomicU64,
    searched: AtomicU64,
}

/// Runs the command.
pub(crate) fn run(args: &LiveArgs) -> Result<()> {
    ensure!(args.batch > 0, "--batch must be at least 1");
    let cancel = interrupt::flag()?;
    let database = args.database.open()?;
    let mut loads = Vec::new();
    for pair in &args.collections {
        let Some((name, file)) = pair.split_once('=') else {
            anyhow::bail!("`{pair}` is not of the form NAME=FILE")
        };
        loads.push(LiveLoad {
            name: name.to_owned(),
            file: VectorsFile::open(PathBuf::from(file).as_path())?,
            rows: collection(&database, name)?,
            written: AtomicU64::new(0),
            searched: AtomicU64::new(0),
        });
    }
    let accountant = database.accountant();
    let (begun, ended) = (Instant::now(), AtomicBool::new(false));
    let length = Duration::try_from_secs_f64(args.seconds)?;
    let (mut held, mut anonymous) = (0, 0);
    std::thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        for load in &loads {
            threads.push(scope.spawn(|| load.search_until(&ended)));
            threads.push(scope.spawn(|| load.write_until(args.batch, &ended)));
        }
        while begun.elapsed() < length
            && !cancel.load(Ordering::Relaxed)
            && !threads.iter().any(std::thread::ScopedJoinHandle::is_finished)
        {
            held = held.max(accountant.held_bytes());
            anonymous = anonymous.max(anonymous_bytes().unwrap_or(0));
            std::thread::park_timeout(Duration::from_millis(20));
        }
        ended.store(true, Ordering::Relaxed);
        let joined = threads.into_iter().map(|t| t.join().expect("a load does not panic"));
        joined.collect::<Result<Vec<()>>>().map(drop)
    })?;
    interrupt::check(&cancel)?;
    let pools: serde_json::Map<_, _> =
        Pool::ALL.iter().map(|&p| (p.name().into(), accountant.pool_bytes(p).into())).collect();
    let collections: Vec<_> = loads.iter().map(LiveLoad::json).collect::<Result<_>>()?;
    print_json(&json!({
        "seconds": rounded(seconds(begun.elapsed()), 2), "collections": collections,
        "limit_bytes": accountant.limit_bytes(), "held_peak_bytes": held, "pools": pools,
        "anonymous_peak_bytes": anonymous, "peak_rss_bytes": peak_rss_bytes(),
    }))
}

impl LiveLoad {
    fn search_until(&self, ended: &AtomicBool) -> Result<()> {
        let set = self.file.set();
        for i in 0.. {
            if ended.load(Ordering::Relaxed) {
                break;
            }
            let row = i * 7919 % self.file.rows();
            search(&self.rows, one(set, row), 10, None)?;
            self.searched.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write_until(&self, rows: usize, ended: &AtomicBool) -> Result<()> {
        let set = self.file.set();
        let there = usize::try_from(self.rows.count(None)?)?.min(self.file.rows());
        ensure!(there > rows, "collection {} has {there} rows", self.name);
        for step in 0.. {
            if ended.load(Ordering::Relaxed) {
                break;
            }
            let first = step * rows % (there - rows);
            let some = || batch(set, first..first + rows, 0);
            self.rows.upsert(some(), None)?;
            if step % 4 == 3 {
                let keys: Vec<_> =
                    (first..first + rows).map(|row| PrimaryKey::Int64(row as i64)).collect();
                self.rows.delete(&keys)?;
                self.rows.insert(some(), None)?;
            }
            self.written.fetch_add(rows as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn json(&self) -> Result<serde_json::Value> {
        let status = self.rows.index_status("graph")?;
        Ok(json!({
            "name": self.name, "rows": self.rows.count(None)?,
            "written": self.written.load(Ordering::Relaxed),
            "searched": self.searched.load(Ordering::Relaxed),
            "linked": status.linked, "pending": status.pending, "deleted": status.deleted,
            "failed": status.failed,
        }))
    }
}
