//! Runs from many seeds, for tests.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A planted fault is noticed within so many.
const PLANTED_SEEDS: u64 = 1000;

/// As many seeds as `PIPEANN_SIM_SEEDS` says, or these.
fn seeds(usual: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test is steered by whoever starts it")]
    let told = std::env::var("PIPEANN_SIM_SEEDS").ok();
    told.map_or(usual, |it| it.parse().expect("PIPEANN_SIM_SEEDS is a number"))
}

/// The lowest seed that was seen to fail, and why: as many runs at once as there are processors, of seeds in
/// order, and none begun after a failure.
fn first_failure(
    seeds: Range<u64>,
    run: impl Fn(u64) -> Result<(), String> + Sync,
) -> Option<(u64, String)> {
    let next = AtomicU64::new(seeds.start);
    let found: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let lane = || {
        while found.lock().expect("no lane panics here").is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if let Err(why) = run(seed) {
                let mut found = found.lock().expect("no lane panics here");
                if found.as_ref().is_none_or(|(other, _)| seed < *other) {
                    *found = Some((seed, why));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(lane);
        }
    });
    found.into_inner().expect("no lane panics here")
}

/// Runs so many seeds, where nothing else is said.
///
/// # Panics
/// As soon as one fails, with the seed and why.
pub fn all_hold(usual: u64, run: impl Fn(u64) -> Result<(), String> + Sync) {
    if let Some((seed, why)) = first_failure(0..seeds(usual), run) {
        panic!("seed {seed}: {why}");
    }
}

/// Runs seeds until one fails.
///
/// # Panics
/// Where none does, of a thousand.
pub fn is_noticed(run: impl Fn(u64) -> Result<(), String> + Sync) {
    let found = first_failure(0..PLANTED_SEEDS, run);
    let (seed, why) = found.expect("a planted fault is noticed");
    println!("noticed at seed {seed}: {why}");
}
