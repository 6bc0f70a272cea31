//! Runs from many seeds.

/// Seeds where nothing else is said.
const SEEDS: u64 = 60;
/// A planted fault is noticed within so many.
const PLANTED_SEEDS: u64 = 1000;

fn seeds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test is steered by whoever starts it")]
    let told = std::env::var("PIPEANN_SIM_SEEDS").ok();
    told.map_or(SEEDS, |it| it.parse().expect("PIPEANN_SIM_SEEDS is a number"))
}

/// Runs all seeds; the first that fails is told.
pub(super) fn all_hold(mut run: impl FnMut(u64) -> Result<(), String>) {
    for seed in 0..seeds() {
        if let Err(why) = run(seed) {
            panic!("seed {seed}: {why}");
        }
    }
}

/// Runs seeds until one fails, which has to be.
pub(super) fn is_noticed(run: impl Fn(u64) -> Result<(), String>) {
    let found = (0..PLANTED_SEEDS).find_map(|seed| run(seed).err().map(|why| (seed, why)));
    let (seed, why) = found.expect("a planted fault is noticed");
    println!("noticed at seed {seed}: {why}");
}
