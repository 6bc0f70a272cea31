//! Runs from many seeds, for tests.

/// A planted fault is noticed within so many.
const PLANTED_SEEDS: u64 = 1000;

/// As many seeds as `PIPEANN_SIM_SEEDS` says, or these.
fn seeds(usual: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test is steered by whoever starts it")]
    let told = std::env::var("PIPEANN_SIM_SEEDS").ok();
    told.map_or(usual, |it| it.parse().expect("PIPEANN_SIM_SEEDS is a number"))
}

/// Runs so many seeds, where nothing else is said.
///
/// # Panics
/// As soon as one fails, with the seed and why.
pub fn all_hold(usual: u64, mut run: impl FnMut(u64) -> Result<(), String>) {
    for seed in 0..seeds(usual) {
        if let Err(why) = run(seed) {
            panic!("seed {seed}: {why}");
        }
    }
}

/// Runs seeds until one fails.
///
/// # Panics
/// Where none does, of a thousand.
pub fn is_noticed(run: impl Fn(u64) -> Result<(), String>) {
    let found = (0..PLANTED_SEEDS).find_map(|seed| run(seed).err().map(|why| (seed, why)));
    let (seed, why) = found.expect("a planted fault is noticed");
    println!("noticed at seed {seed}: {why}");
}
