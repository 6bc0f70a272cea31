//! How large a partition may be, and of how many near neighbours the edges are cut or kept.

/// Rows of the largest partition over those of the mean, at most.
pub(crate) const IMBALANCE: f64 = 1.05;
/// Near neighbours whose edges are cut or kept: about what searches go through near their ends. With
/// ten of them, searches leave their partition some times in a hundred more.
pub(crate) const NEAR: usize = 16;
/// As [`NEAR`], where lists of them are in files.
pub(crate) const NEAR_IN_FILES: usize = 10;

/// The most rows that one of `count` partitions may have.
pub(crate) fn most_rows(rows: usize, count: usize) -> usize {
    let most = (rows as f64 * IMBALANCE / count as f64).floor() as usize;
    most.max(rows.div_ceil(count))
}
