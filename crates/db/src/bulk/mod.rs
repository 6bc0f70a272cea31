//! Bulk load: a source read from front to back into a collection, in large batches.
//!
//! A load has a name, and its progress stands durably with the rows (see
//! `Collection::begin_load`). Interrupted in any way and begun again with the same source, it goes
//! on behind the last row that is on stable storage, and no row comes twice. Rows become visible
//! batch by batch. They go through the log, where one large record and one sync stand for some ten
//! thousand rows; `docs/decisions/0010-bulk-load.md` has the figures, and why the log is not passed
//! by.
//!
//! Sources are behind a trait: [`VectorFile`] reads the layouts of the Big ANN benchmarks, others
//! live in the doors. Time comes from the caller.

mod error;
mod estimate;
mod gather;
mod indexes;
mod load;
mod options;
mod progress;
mod source;
mod vector_file;

pub use error::LoadError;
pub use estimate::{IndexEstimate, LoadEstimate, estimate};
pub use load::load;
pub use options::LoadOptions;
pub use progress::{IndexProgress, LoadProgress, LoadReport, LoadWatch};
pub use source::{BatchSource, SourceError};
pub use vector_file::{KeyColumn, VectorFile};
