//! Queries, truth and recall in the layouts of the Big ANN benchmarks, and process costs.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// An element type of vectors that a file can hold.
pub trait Element: Copy {
    /// Reads one element from the front of `bytes`.
    fn read(bytes: &[u8]) -> Self;
    /// Bytes of one element.
    const BYTES: usize;
}

impl Element for u8 {
    const BYTES: usize = 1;
    fn read(bytes: &[u8]) -> Self {
        bytes[0]
    }
}

impl Element for f32 {
    const BYTES: usize = 4;
    fn read(bytes: &[u8]) -> Self {
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

/// Rows and dimension that the first eight bytes of a vector or truth file state.
pub fn shape(bytes: &[u8]) -> (usize, usize) {
    let field = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    (field(0) as usize, field(4) as usize)
}

/// All vectors of a file, one `Vec` per row.
pub fn read_vectors<T: Element>(path: &Path) -> Result<Vec<Vec<T>>> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let (rows, dim) = shape(&bytes);
    ensure!(bytes.len() == 8 + rows * dim * T::BYTES, "{} is cut short", path.display());
    let row = |row: &[u8]| row.chunks_exact(T::BYTES).map(T::read).collect();
    Ok(bytes[8..].chunks_exact(dim * T::BYTES).map(row).collect())
}

/// Exact neighbours of every query, nearest first.
pub struct Truth {
    neighbours: Vec<Vec<(u32, f32)>>,
}

impl Truth {
    /// Reads u32 queries, u32 k, the ids, the distances.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let (queries, k) = shape(&bytes);
        let (ids, distances) = bytes[8..].split_at(4 * queries * k);
        let id = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("4 bytes"));
        let all: Vec<_> =
            ids.chunks_exact(4).map(id).zip(distances.chunks_exact(4).map(f32::read)).collect();
        Ok(Self { neighbours: all.chunks_exact(k).map(<[_]>::to_vec).collect() })
    }

    /// Mean share of the k nearest found; an id as near as the k-th neighbour counts.
    pub fn recall(&self, found: &[Vec<u32>], k: usize) -> f64 {
        let hits = |(ids, near): (&Vec<u32>, &Vec<(u32, f32)>)| {
            let limit = near[k - 1].1;
            let hit = |id: u32| near.iter().any(|(n, d)| *n == id && *d <= limit);
            ids.iter().filter(|id| hit(**id)).count().min(k)
        };
        let total: usize = found.iter().zip(&self.neighbours).map(hits).sum();
        total as f64 / (k * found.len()) as f64
    }
}

/// User seconds, system seconds and peak resident bytes of this process so far.
pub fn spent() -> (f64, f64, u64) {
    // SAFETY: rusage is plain integers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage that the call only writes.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    assert_eq!(status, 0, "getrusage of the own process cannot fail");
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime), usage.ru_maxrss as u64 * 1024)
}
