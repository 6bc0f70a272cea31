//! What is done behind reads and writes: flushes, graphs and their links, rows whose time is over,
//! and checks of the files.

pub(in crate::collection) mod adoption;
pub(in crate::collection) mod background;
pub(in crate::collection) mod building;
pub(in crate::collection) mod early;
pub(in crate::collection) mod expiry;
pub(in crate::collection) mod flush;
pub(in crate::collection) mod flush_behind;
pub(in crate::collection) mod graphs;
pub(in crate::collection) mod links;
pub(in crate::collection) mod signal;
pub(in crate::collection) mod snapshot;
pub(in crate::collection) mod stats;
pub(in crate::collection) mod unlogged;
pub(in crate::collection) mod verify;

#[cfg(test)]
mod graph_tests;
