//! The codes that stay in memory and rank a node's neighbours before anything is read.
//!
//! There are two kinds. In product quantisation a vector is cut into `code_bytes` subspaces, and
//! each is replaced by the nearest of 256 trained centroids, one byte. RaBitQ keeps 1 to 8 bits of
//! each component of the vector turned at random; it needs a mean and no training. For a query,
//! [`LookupTable`] holds what can be computed once, and [`score_many`] compares it with many codes
//! of either kind. Estimates are on the scale of
//! [`QueryDistance`](crate::distance::QueryDistance). No I/O here, and no allocation after
//! [`LookupTable::new`].

mod any_scale;
mod choice;
mod code_kernel;
mod codebook;
mod codebook_bytes;
mod codebook_error;
mod codes;
mod draws;
mod kind;
mod load;
mod lookup;
mod product;
mod product_table;
mod query_parts;
mod rabitq;
#[cfg(target_arch = "x86_64")]
mod rabitq_avx512;
mod rabitq_query;
mod rabitq_score;
#[cfg(test)]
mod rabitq_tests;
mod rotation;
mod scale;
#[cfg(test)]
mod scale_tests;
mod score;
#[cfg(target_arch = "x86_64")]
mod score_gather;
#[cfg(target_arch = "x86_64")]
mod score_vbmi;
#[cfg(target_arch = "x86_64")]
mod split_vbmi;
mod subspace;
#[cfg(test)]
mod tests;
mod train;
#[cfg(test)]
mod type_tests;

pub(crate) use any_scale::{any_scale_code_bytes, minds_length};
pub use choice::chosen_code_bytes;
pub use code_kernel::CodeKernel;
pub use codebook::Codebook;
pub use codebook_error::CodebookError;
pub use codes::CodesView;
pub use kind::{CodeKind, UnknownCodeKind};
pub use lookup::LookupTable;
pub(crate) use scale::most_lost;
pub use score::score_many;
pub use train::CodeOptions;

/// Centroids of a subspace: one for every value of a byte.
pub const CENTROIDS: usize = 256;

/// Code length that suits vectors of `dim` components: 32 bytes up to 256 dimensions, from
/// there one byte for 8 components, rounded to a multiple of 8; never more than `dim`.
pub fn default_code_bytes(dim: usize) -> usize {
    ((dim + 32) / 64 * 8).max(32).min(dim)
}
