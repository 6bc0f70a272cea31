//! The adversary of the database: a process with a mixed load is killed, or loses its power, and
//! what is left is opened and compared with what it had answered.
//!
//! `load` is what the process does, `kill` ends it at random moments, `power_cut` takes what a
//! `recorder` saw it do to its files and drops or tears whatever was not synced. `check` is the
//! judge of both.

pub mod check;
mod command;
pub mod kill;
pub mod load;
pub mod model;
pub mod power_cut;
pub mod recorder;
pub mod recording;
pub mod vectors;

pub(crate) use command::{CrashArgs, run};
