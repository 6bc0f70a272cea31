//! Integration tests of the engine: built indexes on disk, searched, damaged and shared.

mod allocation;
mod cold;
mod counting;
mod damage;
mod data;
mod load;
mod memory;
mod pool;
mod process;
mod raw;
mod relay;
mod search;
mod standing;
mod warming;
