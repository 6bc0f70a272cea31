//! The room `graph`: adjacency, robust prune, medoid, greedy search in memory, head index.
//!
//! Nothing here does I/O. Node numbers are plain `u32` here: positions in a set while a graph
//! is being built, [`NodeId`](crate::types::NodeId)s once pages are laid out.

mod adjacency;
mod greedy;
mod head;
mod medoid;
mod prune;
mod visited;

pub use adjacency::Adjacency;
pub(crate) use greedy::{EdgeSource, GreedyScratch, greedy_search};
pub use head::{HeadIndex, HeadPartsError, HeadScratch};
pub use medoid::medoid;
pub use prune::{PruneCandidate, PruneOptions, robust_prune};
