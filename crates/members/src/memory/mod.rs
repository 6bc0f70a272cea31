//! A coordinator in one process, shared by its servers, for tests and simulations.
//!
//! It has no thread and takes its clock as an input: whenever it is asked something, it first does
//! what would have happened until then. A server that reaches it renews its lease all the time; one
//! that is cut off is counted down. So with a clock set by hand a run is the same each time.
//!
//! The switches: [`SharedMemory::lose_lease`], [`SharedMemory::cut_off`], [`SharedMemory::halt`] and
//! [`SharedMemory::empty`].

mod end;
mod member;
mod shared;
mod world;

pub use end::SharedMemoryEnd;
pub use shared::SharedMemory;

#[cfg(test)]
mod tests;
