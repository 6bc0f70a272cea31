//! A store that misbehaves, from a seed; and leaders, readers and collectors over it.
//!
//! [`FickleStore`] is that store, also for simulations of whole servers. In the tests of
//! this crate `world` is the clock, chance and the executor, `logs` and `files` are what is tried. `cargo
//! test` runs 60 seeds; `PIPEANN_SIM_SEEDS=1000 cargo test -p pipeann-store sim` runs as many as one
//! likes. Planted faults have to be noticed within 1,000 seeds, or as many as are run.

mod dice;
#[cfg(test)]
mod files;
#[cfg(test)]
mod logs;
pub mod seeds;
mod store;
#[cfg(test)]
mod world;

pub use dice::SimulatedDice;
pub use store::{FickleStore, Moods};
