//! The pipeann engine: an SSD-resident graph index and the search that keeps the SSD's
//! pipeline full.
//!
//! Each module is a room of `ARCHITECTURE.md`; what a room may import is written there and
//! checked by `cargo xtask architecture`. No wire type, no Python type and no network here.

pub mod build;
pub mod distance;
pub mod estimate;
pub mod filter;
pub mod format;
pub mod graph;
pub mod index;
pub mod io;
pub mod memory;
pub mod pool;
pub mod quant;
pub mod search;
pub mod types;
pub mod update;
