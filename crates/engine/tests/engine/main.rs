//! Integration tests of the engine: built indexes on disk, searched, damaged and shared.

mod allocation;
mod cold;
mod damage;
mod data;
mod load;
mod memory;
mod process;
mod search;
mod warming;
