//! What is wrong with a cluster that was simulated.

use std::fmt;

/// What was found in a cluster, or in many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Findings {
    /// Queries asked, and how they ended.
    pub(crate) queries: u64,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    /// Answers that lack partitions.
    pub(crate) partial: u64,
    /// Attempts, and messages that servers had seen before.
    pub(crate) attempts: u64,
    pub(crate) repeated: u64,
    /// Answers that one server with everything would not have given.
    pub(crate) wrong: u64,
    /// Queries that failed, or took another attempt, though nothing befell them.
    pub(crate) lost: u64,
    /// Queries that did not end by their deadline, or ended twice.
    pub(crate) hangs: u64,
    /// Rows among the nearest ones in answers of the search that looks ahead, and in those of one server.
    pub(crate) near: u64,
    pub(crate) near_by_one: u64,
    /// Slots and credit that stayed taken, slots beyond what was reserved, states in two places.
    pub(crate) stuck: u64,
}

impl Findings {
    pub(crate) fn is_clean(&self) -> bool {
        (self.wrong, self.lost, self.hangs, self.stuck) == (0, 0, 0, 0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.queries += other.queries;
        self.answered += other.answered;
        self.failed += other.failed;
        self.partial += other.partial;
        self.attempts += other.attempts;
        self.repeated += other.repeated;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.hangs += other.hangs;
        self.near += other.near;
        self.near_by_one += other.near_by_one;
        self.stuck += other.stuck;
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queries, answered, failed, partial, attempts, repeated, .. } = self;
        write!(f, "{queries} queries, {answered} answered ({partial} in part), {failed} failed, ")?;
        write!(f, "{attempts} attempts, {repeated} repeated; ")?;
        let Self { wrong, lost, hangs, stuck, .. } = self;
        write!(f, "wrong {wrong}, lost {lost}, hangs {hangs}, stuck {stuck}")
    }
}
