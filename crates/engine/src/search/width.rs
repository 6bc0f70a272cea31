//! How many reads of a search are in flight.

use std::sync::Arc;

/// How wide the pipeline of reads is.
#[derive(Clone, Debug, PartialEq)]
pub enum Width {
    /// Always this many reads in flight.
    Fixed(u16),
    /// `start` reads during the approach phase. From the moment that the nearest unread
    /// candidate stands at position `converge_at` or later, one more for every round in which
    /// at least `keep_ratio` of the finished reads were still in the candidate list, up to `max`.
    Dynamic {
        /// Width of the approach phase.
        start: u16,
        /// Widest allowed.
        max: u16,
        /// Position that begins the converge phase.
        converge_at: u16,
        /// Share of useful reads that widens the pipeline.
        keep_ratio: f32,
    },
    /// Pairs of (position of the nearest unread candidate, width from there on), ascending; from
    /// a profile of the data set.
    Table(Arc<[(u16, u16)]>),
}

impl Width {
    /// The widest allowed.
    pub(super) const MOST: u16 = 512;

    /// The dynamic width with the values of the paper (sections 4.2.2 and 4.2.3).
    pub const fn dynamic() -> Self {
        Self::Dynamic { start: 4, max: 32, converge_at: 5, keep_ratio: 0.9 }
    }

    pub(super) fn start(&self) -> u16 {
        match self {
            Self::Fixed(w) => *w,
            Self::Dynamic { start, .. } => *start,
            Self::Table(table) => table.first().map_or(1, |&(_, w)| w),
        }
    }

    /// The widest that this choice can become.
    pub fn max(&self) -> u16 {
        match self {
            Self::Fixed(w) => *w,
            Self::Dynamic { start, max, .. } => *start.max(max),
            Self::Table(table) => table.iter().map(|&(_, w)| w).max().unwrap_or(1),
        }
    }
}
