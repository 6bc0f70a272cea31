//! How fast rows are linked beside searches.

/// Rows of one call whose neighbours are searched for at once, at most.
pub(super) const MOST_IN_FLIGHT: usize = 8;

/// How much of the device rows that are linked take from searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPace {
    /// Several rows at once, with as many reads in flight as are quickest.
    Full,
    /// Fewer rows at once, with few reads in flight: searches wait less for theirs. They do not see
    /// that rows are linked, and go as wide as ever.
    Gentle,
}

impl LinkPace {
    /// Rows of one call whose neighbours are searched for at once.
    pub(super) const fn in_flight(self) -> usize {
        match self {
            Self::Full => MOST_IN_FLIGHT,
            Self::Gentle => 4,
        }
    }

    /// Reads in flight of one such search.
    pub(super) const fn width(self) -> u16 {
        match self {
            Self::Full => 8,
            Self::Gentle => 2,
        }
    }
}
