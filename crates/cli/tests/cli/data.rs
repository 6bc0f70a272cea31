//! Clustered vectors in files, and runs of the command.

use std::path::PathBuf;
use std::process::{Command, Output};

use pipeann_engine::types::SplitMix64;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const DIM: usize = 24;

/// A reproducible stream of numbers.
pub(crate) struct Numbers(SplitMix64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
}

/// `rows` x [`DIM`] bytes around 40 centres that all seeds share.
pub(crate) fn clustered(rows: usize, seed: u64) -> Vec<u8> {
    let mut centres = Numbers::new(7);
    let centres: Vec<u64> = (0..40 * DIM).map(|_| centres.below(180)).collect();
    let mut numbers = Numbers::new(seed);
    let mut out = Vec::with_capacity(rows * DIM);
    for _ in 0..rows {
        let centre = numbers.below(40) as usize * DIM;
        out.extend((0..DIM).map(|d| (centres[centre + d] + numbers.below(70)) as u8));
    }
    out
}

/// A `.u8bin` file's bytes.
pub(crate) fn u8bin(rows: usize, dim: usize, data: &[u8]) -> Vec<u8> {
    [&(rows as u32).to_le_bytes()[..], &(dim as u32).to_le_bytes(), data].concat()
}

/// A directory with base vectors, queries, and room for an index.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
}

impl Place {
    /// With `base.u8bin` of so many rows and `query.u8bin` of 50.
    pub(crate) fn new(rows: usize) -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        place.write("base.u8bin", &u8bin(rows, DIM, &clustered(rows, 1)));
        place.write("query.u8bin", &u8bin(50, DIM, &clustered(50, 2)));
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// Runs the command in this directory.
    pub(crate) fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// The command with the words of `line`, to be run in this directory.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(line.split_whitespace()).current_dir(self.dir.path());
        command.env_remove("PIPEANN_DATA");
        command
    }

    /// Runs it, expects success, and returns the JSON lines.
    pub(crate) fn json(&self, line: &str) -> Vec<Value> {
        let out = self.run(&format!("{line} --json"));
        assert!(out.status.success(), "{line}: {}", text(&out.stderr));
        text(&out.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    /// Runs it, expects exit code 1, and returns the one line of the error.
    pub(crate) fn refusal(&self, line: &str) -> String {
        let out = self.run(line);
        let error = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{line}: {error}");
        let last = error.lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("pipeann: "), "{line}: {error}");
        last
    }

    /// Builds `index` from `base.u8bin`.
    pub(crate) fn build(&self) -> Value {
        self.json(&format!("build --base base.u8bin --index index --metric l2 {SMALL}")).remove(0)
    }

    /// Makes `truth.bin`.
    pub(crate) fn truth(&self) {
        self.json("gt --base base.u8bin --queries query.u8bin --k 20 --metric l2 --out truth.bin");
    }
}

/// Small build parameters, so that tests are quick.
pub(crate) const SMALL: &str = "--degree 24 --list 40 --code-bytes 12 --threads 2 --seed 3";

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
