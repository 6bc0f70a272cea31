//! The seeds: small inputs that the code itself wrote, so that together they reach every section.
//!
//! `cargo run --package pipeann-fuzz --example fuzz-seeds` writes them anew; they are committed, so that a run needs
//! nothing else, and a format that changes without them fails a test. Identities and times in them
//! differ from writing to writing, so the bytes are not compared.

mod cluster;
mod database;
mod engine;
mod filters;
mod raw;
mod rooms;
mod seed;
mod store;

use std::io;
use std::path::Path;

pub use seed::Seed;

use seed::Seeds;

/// All seeds, made now.
pub fn all() -> Vec<Seed> {
    let mut seeds = Seeds(Vec::new());
    engine::add(&mut seeds);
    rooms::add(&mut seeds);
    database::add(&mut seeds);
    filters::add(&mut seeds);
    cluster::add(&mut seeds);
    raw::add(&mut seeds);
    store::add(&mut seeds);
    // What is broken on purpose reads what the log reads.
    let records: Vec<Seed> = seeds.0.iter().filter(|s| s.target == "log-record").cloned().collect();
    for target in crate::targets().iter().filter(|target| target.planted) {
        records.iter().for_each(|seed| seeds.add(target.name, &seed.name, seed.bytes.as_slice()));
    }
    seeds.0
}

/// Writes all seeds below `dir`, a directory for each target, in place of those that are there.
///
/// # Errors
/// What the system said.
pub fn write(dir: &Path) -> io::Result<usize> {
    let seeds = all();
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for seed in &seeds {
        let dir = dir.join(seed.target);
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join(&seed.name), &seed.bytes)?;
    }
    Ok(seeds.len())
}
