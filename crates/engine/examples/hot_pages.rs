//! How many of the pages that searches use are found in memory, under some limits: with the pages
//! that were used most, with those that came first, and with those that will be used most, which
//! nobody can know beforehand.
//!
//! ```text
//! cargo run --release --example hot_pages -- INDEX QUERIES.u8bin|.fbin [LIST]
//! ```
//!
//! The first half of the queries brings pages into memory, the second is counted. Pages are read by
//! searches alone; beside that, with those used most, where all that fit are read ahead of searches.

mod common;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use common::Table;
use pipeann_engine::index::{Index, OpenOptions, Resident};
use pipeann_engine::io::{Device, IoError};
use pipeann_engine::memory::Accountant;
use pipeann_engine::search::{
    AllPages, Driver, DriverOptions, EpochGuard, GraphView, PageSource, Policy, ReadFailure,
    SearchParams, SearchStats, UnderWay,
};
use pipeann_engine::types::PageId;

/// An index that notes which pages are used.
struct Watched {
    index: Index,
    uses: Mutex<Vec<u32>>,
}

impl PageSource for Watched {
    fn view(&self) -> GraphView<'_> {
        self.index.view()
    }

    fn lease(&self, holder: usize) -> EpochGuard<'_> {
        self.index.lease(holder)
    }

    fn all_pages<'p>(&'p self, lease: &'p EpochGuard<'_>) -> Option<AllPages<'p>> {
        self.index.all_pages(lease)
    }

    fn locate(&self, page: PageId) -> (&Device, u64) {
        self.index.locate(page)
    }

    fn page_bytes(&self) -> usize {
        self.index.page_bytes()
    }

    fn resident<'p>(&'p self, lease: &'p EpochGuard<'_>, page: PageId) -> Option<&'p [u8]> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner).push(page.0);
        self.index.resident(lease, page)
    }

    fn accept(&self, page: PageId, bytes: &[u8]) -> Result<(), ReadFailure> {
        self.index.accept(page, bytes)
    }

    fn describe(&self, page: PageId, error: &IoError) -> ReadFailure {
        self.index.describe(page, error)
    }

    fn begun(&self) -> Option<UnderWay> {
        self.index.begun()
    }

    fn ended(&self, stats: &SearchStats, in_flight: usize) {
        self.index.ended(stats, in_flight);
    }
}

/// Opens an index under a limit between its floor and all its pages, in sevenths.
fn opened(path: &Path, sevenths: u64, warm: bool) -> Result<Watched, Box<dyn Error>> {
    let all = Index::open(path, &OpenOptions::default())?;
    let (low, high) = (all.floor().total(), all.bytes_for_all_pages());
    drop(all);
    let options = OpenOptions {
        accountant: Accountant::new(Some(low + (high - low) * sevenths / 7)),
        resident: Resident::Remaining,
        warm,
        ..OpenOptions::default()
    };
    let index = Index::open(path, &options)?;
    index.wait_resident()?;
    index.wait_warm(Duration::from_secs(600));
    Ok(Watched { index, uses: Mutex::default() })
}

/// Searches all queries; pages used, and how many of them were in memory.
fn search(
    watched: &Watched,
    queries: &[&[u8]],
    params: &SearchParams,
) -> Result<(Vec<u32>, u64), Box<dyn Error>> {
    let in_flight = 8;
    let options = DriverOptions { queries: in_flight, ..DriverOptions::default() };
    let mut driver = Driver::new(watched.index.backend().as_ref(), watched, &options)?;
    let mut left = queries.iter().copied().enumerate();
    let (mut from_memory, mut failure) = (0, None);
    driver.run(
        watched,
        params,
        None,
        in_flight,
        &mut || left.next(),
        &mut |_, answer| match answer {
            Ok((_, stats)) => from_memory += stats.resident_pages,
            Err(error) => failure = Some(error),
        },
    )?;
    let uses = std::mem::take(&mut *watched.uses.lock().unwrap_or_else(PoisonError::into_inner));
    failure.map_or(Ok((uses, from_memory)), |error| Err(error.into()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("the first argument is an index")?);
    let queries = Table::read(&args.next().ok_or("the second one is queries")?)?;
    let list = args.next().map_or(Ok(25), |list| list.parse())?;
    let rows: Vec<&[u8]> =
        queries.bytes.chunks_exact(queries.bytes.len() / queries.rows.max(1)).collect();
    let (first, second) = rows.split_at(rows.len() / 2);
    // By pages also where all are in memory: their uses are what is compared.
    let policy = Policy { in_memory: false, ..Policy::auto() };
    let params = SearchParams { k: 10, list, policy, ..SearchParams::default() };
    println!("share of pages  used most  and warmed  came first  best afterwards  seen before");
    for sevenths in [1, 3, 5, 6, 7] {
        let warmed = opened(&path, sevenths, true)?;
        search(&warmed, first, &params)?;
        let (uses, found) = search(&warmed, second, &params)?;
        let and_warmed = found as f64 / uses.len() as f64;
        drop(warmed);
        let watched = opened(&path, sevenths, false)?;
        let room = watched.index.page_stats().room as usize;
        let (before, _) = search(&watched, first, &params)?;
        let (after, found) = search(&watched, second, &params)?;
        let share = |hits: usize| hits as f64 / after.len() as f64;
        println!(
            "{:14.3}  {:9.4}  {:10.4}  {:10.4}  {:15.4}  {:11.4}",
            room as f64 / f64::from(watched.index.pages()),
            share(usize::try_from(found)?),
            and_warmed,
            share(first_come(&before, &after, room)),
            share(best(&after, room)),
            share(first_come(&before, &after, before.len())),
        );
    }
    Ok(())
}

/// Hits of the second half where pages stay that came first.
fn first_come(before: &[u32], after: &[u32], room: usize) -> usize {
    let mut held = HashSet::new();
    let mut hits = 0;
    for (nth, page) in before.iter().chain(after).enumerate() {
        if held.contains(page) {
            hits += usize::from(nth >= before.len());
        } else if held.len() < room {
            held.insert(*page);
        }
    }
    hits
}

/// Hits of the second half where the pages were there that it uses most.
fn best(after: &[u32], room: usize) -> usize {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    after.iter().for_each(|page| *counts.entry(*page).or_default() += 1);
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.iter().take(room).sum()
}
