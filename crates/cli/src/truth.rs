//! Exact truth: reading, writing, and the recall of an answer against it.
//!
//! A truth file holds u32 queries, u32 k, then queries x k u32 row ids and as many f32
//! distances (squared for L2, smaller is nearer), nearest first, little-endian. `.ivecs` holds
//! the ids alone.
//!
//! An answer is correct where its id is among the first k true ones, or where its distance is
//! not above the k-th true distance: of rows at equal distance any will do. That second rule is
//! dropped for truth whose distances are missing or on another scale than the index's.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::vectors_file::{IntegerRows, WholeFile, map, read_ivecs};

/// Stands in a truth file where fewer rows match than there are places.
pub const NO_ROW: u32 = u32::MAX;

/// How answers compare with a truth in which some queries may have fewer rows than asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Rows that should be found, of all queries together.
    pub expected: usize,
    /// Those that were, or others at the same distance.
    pub correct: usize,
    /// Rows answered that are nearer than the last true one and not among the true ones, or that
    /// are answered though none are left: they do not match.
    pub wrong: usize,
}

impl Compared {
    /// The share of the expected rows that was found; 1 where none was expected.
    pub fn recall(&self) -> f64 {
        if self.expected == 0 { 1.0 } else { self.correct as f64 / self.expected as f64 }
    }
}

/// The nearest rows of each query.
#[derive(Debug)]
pub struct Truth {
    queries: usize,
    k: usize,
    ids: Vec<u32>,
    /// Empty where unknown.
    distances: Vec<f32>,
}

const HEADER_BYTES: usize = 8;

impl Truth {
    /// Truth from its parts, row after row.
    ///
    /// # Panics
    /// Where the lengths differ from `queries` x `k`.
    pub fn new(queries: usize, k: usize, ids: Vec<u32>, distances: Vec<f32>) -> Self {
        assert_eq!(ids.len(), queries * k, "one id for each place");
        assert!(distances.is_empty() || distances.len() == ids.len(), "one distance for each id");
        Self { queries, k, ids, distances }
    }

    /// Reads a truth file (`.bin`, or any extension but `.ivecs`) or the ids of `.ivecs`.
    ///
    /// # Errors
    /// Unreadable, truncated or empty files, with what was expected.
    pub fn open(path: &Path) -> Result<Self> {
        if path.extension().is_some_and(|e| e == "ivecs") {
            let IntegerRows { rows, columns, numbers } = read_ivecs(path)?;
            return Ok(Self::new(rows, columns, numbers, Vec::new()));
        }
        let bytes = map(path)?;
        Self::decode(&bytes).with_context(|| {
            format!(
                "{}: no truth file (expected u32 queries, u32 k, then ids as u32 and distances \
                 as f32)",
                path.display()
            )
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        ensure!(bytes.len() >= HEADER_BYTES, "truncated: {} bytes hold no header", bytes.len());
        let words = |part: &[u8]| -> Vec<u32> {
            part.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
        };
        let header = words(&bytes[..HEADER_BYTES]);
        let (queries, k) = (header[0] as usize, header[1] as usize);
        ensure!(queries > 0 && k > 0, "its header announces {queries} queries x {k}");
        let announced = HEADER_BYTES as u128 + queries as u128 * k as u128 * 8;
        ensure!(
            bytes.len() as u128 == announced,
            "its header announces {queries} queries x {k}, which takes {announced} bytes, but the \
             file has {}",
            bytes.len()
        );
        let body = &bytes[HEADER_BYTES..];
        let (ids, distances) = body.split_at(body.len() / 2);
        let distances: Vec<f32> = words(distances).into_iter().map(f32::from_bits).collect();
        // Written by `convert` from a file that has ids alone.
        let unknown = distances.iter().all(|d| d.is_nan());
        Ok(Self::new(queries, k, words(ids), if unknown { Vec::new() } else { distances }))
    }

    /// Writes a truth file; unknown distances become NaN.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let word = |n: usize| u32::try_from(n).context("too many for a truth file");
        let mut file = WholeFile::create(path)?;
        file.write(&word(self.queries)?.to_le_bytes())?;
        file.write(&word(self.k)?.to_le_bytes())?;
        for id in &self.ids {
            file.write(&id.to_le_bytes())?;
        }
        for i in 0..self.ids.len() {
            file.write(&self.distances.get(i).copied().unwrap_or(f32::NAN).to_le_bytes())?;
        }
        file.finish()
    }

    /// Queries answered.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// Rows known for each.
    pub fn k(&self) -> usize {
        self.k
    }

    /// All ids, query after query.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Truth of a file for the first `used` of `all` queries.
    ///
    /// # Errors
    /// The file holds none, or one of other queries or fewer rows than `k`.
    pub fn of_first(path: &Path, all: usize, used: usize, k: usize) -> Result<Self> {
        let mut truth = Self::open(path)?;
        if truth.queries() == all {
            truth.truncate(used);
        }
        truth.check(used, k).with_context(|| path.display().to_string())?;
        Ok(truth)
    }

    /// Only the first `queries`.
    pub fn truncate(&mut self, queries: usize) {
        self.queries = self.queries.min(queries);
        self.ids.truncate(self.queries * self.k);
        self.distances.truncate(self.queries * self.k);
    }

    /// Leaves the first `queries` out.
    pub fn skip(&mut self, queries: usize) {
        let queries = self.queries.min(queries);
        self.queries -= queries;
        self.ids.drain(..queries * self.k);
        let distances = (queries * self.k).min(self.distances.len());
        self.distances.drain(..distances);
    }

    /// Refuses truth that does not belong to `queries` queries or is too short for `k`.
    ///
    /// # Errors
    /// With both numbers.
    pub fn check(&self, queries: usize, k: usize) -> Result<()> {
        if self.queries != queries {
            bail!("the truth is for {} queries, but there are {queries}", self.queries);
        }
        ensure!(
            k <= self.k,
            "the truth knows {} rows for each query, too few for recall@{k}",
            self.k
        );
        Ok(())
    }

    fn row(&self, query: usize) -> (&[u32], Option<&[f32]>) {
        let range = query * self.k..(query + 1) * self.k;
        (&self.ids[range.clone()], self.distances.get(range))
    }

    /// The mean share of the `k` nearest that the answers hold; see the module's description.
    /// `answers` gives (row, distance) for each query.
    ///
    /// # Panics
    /// Where [`check`](Self::check) would refuse.
    pub fn recall(&self, k: usize, answers: &[Vec<(u64, f32)>]) -> f64 {
        let ties = self.same_scale(k, answers);
        let mut correct = 0;
        for (query, answer) in answers.iter().enumerate() {
            let (ids, distances) = self.row(query);
            let farthest = distances.filter(|_| ties).map(|d| d[k - 1]);
            correct += answer
                .iter()
                .take(k)
                .filter(|&&(row, distance)| {
                    ids[..k].iter().any(|&id| u64::from(id) == row)
                        || farthest.is_some_and(|f| distance <= f)
                })
                .count();
        }
        correct as f64 / (k * answers.len()) as f64
    }

    /// How answers compare with the first `k` of the truth, where [`NO_ROW`] fills the places of
    /// queries with fewer rows. Distances have to be known.
    ///
    /// # Panics
    /// Where [`check`](Self::check) would refuse.
    pub fn found(&self, k: usize, answers: &[Vec<(u64, f32)>]) -> Compared {
        let mut found = Compared::default();
        for (query, answer) in answers.iter().enumerate() {
            let (ids, distances) = self.row(query);
            let there = ids[..k].iter().take_while(|&&id| id != NO_ROW).count();
            let farthest = distances.filter(|_| there == k).map(|d| d[k - 1]);
            let mut correct = 0;
            for &(row, distance) in answer.iter().take(k) {
                let tie = |f: f32| (distance - f).abs() <= 1e-6 * f.abs();
                let among = ids[..there].iter().any(|&id| u64::from(id) == row);
                if among || farthest.is_some_and(tie) {
                    correct += 1;
                } else if there < k || farthest.is_some_and(|f| distance < f) {
                    found.wrong += 1;
                }
            }
            found.correct += correct;
            found.expected += there;
        }
        found
    }

    /// Whether the true distances mean the same as those answered: judged by the rows that are
    /// in both.
    fn same_scale(&self, k: usize, answers: &[Vec<(u64, f32)>]) -> bool {
        let mut common = 0;
        for (query, answer) in answers.iter().enumerate() {
            let (ids, Some(distances)) = self.row(query) else { return false };
            for &(row, distance) in answer {
                let at = ids[..k].iter().position(|&id| u64::from(id) == row);
                if let Some(truth) = at.map(|i| distances[i]) {
                    common += 1;
                    let scale = truth.abs().max(distance.abs()).max(1e-3);
                    if (truth - distance).abs() > 1e-2 * scale {
                        return false;
                    }
                }
            }
        }
        common > 0
    }
}

#[cfg(test)]
mod tests;
