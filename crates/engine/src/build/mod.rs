//! The room `build`: from borrowed vectors to an index directory.
//!
//! Checks the input, trains and encodes codes, links the graph (Vamana), assigns nodes to
//! pages so that neighbours share them, renumbers, builds the head index, and writes. The
//! manifest comes last and the directory is renamed into place, so an interrupted build leaves
//! nothing that opens. The graph and a copy of the vectors are in memory while it runs, or under a
//! memory limit those of one shard after the other. A graph that DiskANN has built, or one that
//! stands in an index, is taken over in place of the linking.

mod affinity;
mod centres;
mod check;
#[cfg(feature = "partitioner")]
mod coarsen;
mod coding;
mod diskann;
mod error;
mod estimate;
mod gather;
mod halves;
mod head;
mod huge;
mod import;
#[cfg(feature = "partitioner")]
mod kway;
mod leaf_links;
mod leaves;
mod limited;
mod links;
mod merge;
mod mounted;
#[cfg(feature = "partitioner")]
mod near_file;
#[cfg(feature = "partitioner")]
mod near_graph;
mod nearest;
mod numbering;
mod options;
mod order;
mod pack;
mod parted;
mod partition;
mod partition_bounds;
mod pipeline;
mod plan;
mod progress;
mod random;
mod reach;
mod refine;
mod relayout;
mod reservoir;
#[cfg(feature = "partitioner")]
mod settle;
mod shard_pages;
mod shards;
mod site;
mod sizes;
mod source;
mod spill;
mod spooled;
mod standing_files;
#[cfg(test)]
mod tests;
mod threads;
mod vamana;
mod vamana_options;
mod walk;
mod work_dir;
mod worker;
mod write;

pub use diskann::DiskannIndex;
pub use error::BuildError;
pub use estimate::{Estimate, estimate};
pub(crate) use head::head_parts;
pub use import::import_diskann;
pub use limited::build_limited;
pub(crate) use nearest::{NONE, Nearest};
pub use options::{BuildOptions, HeadOptions, PartitionBy};
pub(crate) use order::order_by;
pub use order::{EMPTY_SLOT, Locality, OrderOptions, PageOrder, locality_order};
pub use pipeline::{BuildReport, SourceRows, build, build_rows};
pub use progress::{Cancelled, Progress, Silent, Stage};
pub(crate) use relayout::check_repartition;
pub use relayout::{StandingGraph, repartition, repartition_limited};
pub use source::RowSource;
pub use spooled::SpooledRows;
pub use standing_files::StandingFiles;
pub use vamana::vamana;
pub use vamana_options::VamanaOptions;
