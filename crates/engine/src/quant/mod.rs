//! Product quantisation: the codes that stay in memory and rank a node's neighbours before
//! anything is read.
//!
//! A vector is cut into `code_bytes` subspaces; each is replaced by the nearest of 256 trained
//! centroids, one byte. For a query, [`LookupTable`] holds the distance part of every centroid,
//! and [`score_many`] adds up a code's parts. Estimates are on the scale of
//! [`QueryDistance`](crate::distance::QueryDistance). No I/O here, and no allocation after
//! [`LookupTable::new`].

mod codebook;
mod codebook_bytes;
mod codes;
mod lookup;
mod score;
#[cfg(target_arch = "x86_64")]
mod score_gather;
#[cfg(target_arch = "x86_64")]
mod score_vbmi;
mod subspace;
#[cfg(test)]
mod tests;
mod train;
#[cfg(test)]
mod type_tests;

pub use codebook::Codebook;
pub use codebook_bytes::CodebookError;
pub use codes::CodesView;
pub use lookup::LookupTable;
pub use score::{CodeKernel, score_many};
pub use train::PqOptions;

/// Centroids of a subspace: one for every value of a byte.
pub const CENTROIDS: usize = 256;

/// Code length that suits vectors of `dim` components: 32 bytes up to 256 dimensions, from
/// there one byte for 8 components, rounded to a multiple of 8; never more than `dim`.
pub fn default_code_bytes(dim: usize) -> usize {
    ((dim + 32) / 64 * 8).max(32).min(dim)
}
