//! What each centroid of a subspace adds to the distance of a query, in both forms of the table.

use super::CENTROIDS;

/// The parts of one subspace.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct SubspaceParts(pub(super) [f32; CENTROIDS]);

/// The same as 16-bit integers, split into low and high bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct SplitParts {
    pub(super) low: [u8; CENTROIDS],
    pub(super) high: [u8; CENTROIDS],
}
