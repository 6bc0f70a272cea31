//! When a search whose list stays here has read enough.
//!
//! Only the engine knows what distances mean, so what decides is handed in from outside.

/// What one attempt at a query has learnt from reads.
pub trait EarlyStop: Send + std::fmt::Debug {
    /// Candidates that are kept where the list is so long: farther ones may be worth a read, too.
    fn keeps(&self, list: usize) -> usize;

    /// A node was read that is so much farther than it was taken to be.
    fn note(&mut self, difference: f32);

    /// The distance beyond which no candidate is worth a read, where the `k`-th nearest row known is at
    /// `kth`; none while too few nodes were read to say.
    fn reach(&self, kth: f32, k: usize, list: usize) -> Option<f32>;
}
