//! Ranges of distances that are answered, and what a search within one remembers.

use std::ops::{Bound, RangeBounds};

/// Distances between two ends; smaller is nearer, for every metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistanceRange {
    /// Where distances begin.
    pub from: Bound<f32>,
    /// Where distances end.
    pub to: Bound<f32>,
}

impl Default for DistanceRange {
    /// All.
    fn default() -> Self {
        Self::ALL
    }
}

impl DistanceRange {
    /// All.
    pub const ALL: Self = Self { from: Bound::Unbounded, to: Bound::Unbounded };

    /// Whether every distance is in it.
    pub fn is_all(&self) -> bool {
        (Bound::Unbounded, Bound::Unbounded) == (self.from, self.to)
    }

    /// Whether a distance is in it.
    pub fn contains(&self, distance: f32) -> bool {
        (self.from, self.to).contains(&distance)
    }

    /// Whether its ends are numbers.
    pub(super) fn is_sound(&self) -> bool {
        let is_nan =
            |end| matches!(end, Bound::Included(at) | Bound::Excluded(at) if f32::is_nan(at));
        !is_nan(self.from) && !is_nan(self.to)
    }

    pub(super) fn is_too_near(&self, distance: f32) -> bool {
        !(self.from, Bound::Unbounded).contains(&distance)
    }

    pub(super) fn far_end(&self) -> Option<f32> {
        match self.to {
            Bound::Included(to) | Bound::Excluded(to) => Some(to),
            Bound::Unbounded => None,
        }
    }
}

/// What a search within a range remembers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranged {
    /// Exact distance of the nearest row that may be answered.
    pub(super) nearest: f32,
    /// Rows seen that are nearer than the range.
    pub(super) too_near: u32,
}

impl Default for Ranged {
    fn default() -> Self {
        Self { nearest: f32::INFINITY, too_near: 0 }
    }
}
