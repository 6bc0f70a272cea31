//! Why nothing is estimated.

use std::ops::RangeInclusive;

use crate::build::BuildError;
use crate::format::LayoutError;

/// Why nothing is estimated. The caller has to change the question.
#[derive(Debug, thiserror::Error)]
pub enum EstimateError {
    /// No rows.
    #[error("an index of no rows has nothing to estimate")]
    NoRows,
    /// An option of the build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// No layout fits.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Less memory than the index opens with.
    #[error("a limit of {limit} bytes is below the {needed} bytes that the index opens with")]
    BelowFloor {
        /// The limit.
        limit: u64,
        /// The least that it must be.
        needed: u64,
    },
    /// A list that the model does not know.
    #[error("list {list} is not from {} to {}", known.start(), known.end())]
    List {
        /// The list asked for.
        list: usize,
        /// Those known.
        known: RangeInclusive<usize>,
    },
    /// A recall that no list is expected to have.
    #[error("no list of up to {longest} is expected to have recall {recall}; that has {most:.3}")]
    Recall {
        /// The recall asked for.
        recall: f64,
        /// The longest list.
        longest: usize,
        /// Its recall.
        most: f64,
    },
}
