//! When rows were written: ranges of them, in the order of rows.

use crate::catalog::UnixMs;
use crate::ids::RowId;

/// Rows that were written at about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AgeRange {
    /// The first of them.
    pub(super) first: RowId,
    /// When the last of them was written at the latest.
    pub(super) until: UnixMs,
}

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AgeRanges {
    /// In the order of rows.
    pub(super) ranges: Vec<AgeRange>,
    /// The age of this row, and of later ones, is not noted.
    pub(super) end: RowId,
}
