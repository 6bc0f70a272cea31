//! Vectors of rows: real ones from a file, or made by a formula where there is none.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, ensure};
use pipeann_engine::types::SplitMix64;

/// Components of a vector that is made.
const MADE_DIM: usize = 16;
/// As many different ones are made.
const MADE_ROWS: u64 = 5000;

/// A stream of numbers that depends on its seed only.
#[derive(Clone, Debug)]
pub struct Numbers(SplitMix64);

impl Numbers {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next one, below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }
}

/// Vectors of bytes, by number.
#[derive(Clone, Debug)]
pub struct Vectors {
    dim: usize,
    bytes: Vec<u8>,
}

impl Vectors {
    /// The first `most` vectors of a file in the layout `.u8bin`; made ones without a file.
    ///
    /// # Errors
    /// A file that cannot be read or is too short.
    pub fn read(file: Option<&Path>, most: usize) -> anyhow::Result<Self> {
        let Some(path) = file else { return Ok(Self::made()) };
        let named = || format!("cannot read {}", path.display());
        let mut file = File::open(path).with_context(named)?;
        let mut header = [0; 8];
        file.read_exact(&mut header).with_context(named)?;
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i])) as usize;
        let (rows, dim) = (number(0).min(most), number(4));
        ensure!(rows > 0 && dim > 0, "{} holds no vectors", path.display());
        let mut bytes = vec![0; rows * dim];
        file.read_exact(&mut bytes).with_context(named)?;
        Ok(Self { dim, bytes })
    }

    fn made() -> Self {
        let mut numbers = Numbers::new(7);
        let bytes = (0..MADE_ROWS * MADE_DIM as u64).map(|_| numbers.below(256) as u8).collect();
        Self { dim: MADE_DIM, bytes }
    }

    /// Components of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How many there are.
    pub fn rows(&self) -> u64 {
        (self.bytes.len() / self.dim) as u64
    }

    /// The vector of this number.
    ///
    /// # Panics
    /// Where there are fewer.
    pub fn get(&self, number: u64) -> &[u8] {
        &self.bytes[number as usize * self.dim..][..self.dim]
    }
}
