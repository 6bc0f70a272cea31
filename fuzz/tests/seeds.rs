//! The committed seeds: each is decoded by today's code, together they reach every section, and
//! what the code writes today does so too.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use pipeann_fuzz::seeds::{self, Seed};
use pipeann_fuzz::{FuzzTarget, targets};

/// The largest seed: mutations of small inputs find more.
const MOST_BYTES: usize = 16 << 10;

fn committed(target: &FuzzTarget) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(target.seeds())
        .unwrap_or_else(|error| panic!("no seeds of {}: {error}", target.name));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Sections of the target that none of the inputs reaches.
fn missed<'i>(target: &FuzzTarget, inputs: impl Iterator<Item = &'i [u8]>) -> Vec<&'static str> {
    let reached: Vec<_> = inputs.map(|input| target.run(input)).collect();
    let sections = target.sections.iter().copied();
    sections.filter(|section| !reached.iter().any(|reached| reached.has(section))).collect()
}

#[test]
fn committed_seeds_reach_every_section() {
    for target in targets().iter().filter(|target| !target.planted) {
        let seeds = committed(target);
        let missed = missed(target, seeds.iter().map(|(_, bytes)| bytes.as_slice()));
        assert_eq!(missed, [""; 0], "sections of {} that no seed reaches", target.name);
        for (path, bytes) in &seeds {
            assert!(bytes.len() <= MOST_BYTES, "{} has {} bytes", path.display(), bytes.len());
            let reached = target.sections.iter().any(|s| target.run(bytes).has(s));
            assert!(reached, "{} is decoded by nothing: write the seeds anew", path.display());
        }
    }
}

#[test]
fn what_is_written_today_reaches_every_section() {
    let seeds: Vec<Seed> = seeds::all();
    for target in targets().iter().filter(|target| !target.planted) {
        let inputs = seeds.iter().filter(|seed| seed.target == target.name);
        let missed = missed(target, inputs.map(|seed| seed.bytes.as_slice()));
        assert_eq!(missed, [""; 0], "sections of {} that nothing written reaches", target.name);
    }
}

#[test]
fn committed_seeds_are_those_that_are_written() {
    let written: BTreeSet<_> = seeds::all().into_iter().map(|s| (s.target, s.name)).collect();
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let found: BTreeSet<_> = targets()
        .iter()
        .flat_map(|target| committed(target).into_iter().map(|(path, _)| (target.name, name(path))))
        .collect();
    assert_eq!(found, written, "write the seeds anew");
}

#[test]
fn what_is_broken_on_purpose_bears_its_seeds() {
    for target in targets().iter().filter(|target| target.planted) {
        let seeds = committed(target);
        assert!(!seeds.is_empty());
        for (_, bytes) in seeds {
            target.run(&bytes);
        }
    }
}
