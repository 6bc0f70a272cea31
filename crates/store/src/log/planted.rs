//! Faults on purpose, which a simulation has to notice.

/// What a simulation breaks on purpose, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// An append is acknowledged before its put has succeeded.
    AcknowledgedEarly,
    /// A cut deletes openings too, so that their names can be taken again.
    OpeningsDeleted,
    /// "Exists" is taken for the caller's own.
    NoReadBack,
    /// A candidate does not look at the cut after its opening.
    CutIgnored,
}
