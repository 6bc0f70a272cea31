//! By how much exact distances differ from coded ones, learnt from the query's own reads.
//!
//! Every page that is read shows for a few candidates both what their code promised and what is
//! true. Mean and deviation of the difference tell how likely a candidate that was not read yet
//! belongs to the answer, so that a search can leave out the reads that will hardly change it.

/// Differences needed before their deviation means anything.
const ENOUGH: u32 = 8;

/// Deviations allowed for each e-fold of the list's length over `k`. Fitted on one million SIFT
/// vectors so that for `k` = 10 every list length gives about the recall of reading the whole
/// list, and checked on other data and other `k`; docs/decisions/0004 has the figures.
const DEVIATIONS_PER_EFOLD: f32 = 1.9;

/// The least deviation, as a share of the distance of the `k`-th nearest. Codes that hardly err
/// would stop a search at the first candidate that is no nearer, whatever its list, though
/// candidates a little farther have neighbours that are nearer: recall ended at 0.96 with exact
/// distances. docs/decisions/0025 has the figures.
const LEAST_DEVIATION: f32 = 0.03;

/// Deviations by which a code may promise too much before its vector is not even compared. With
/// two the answers are those without screening; docs/decisions/0026 has the figures.
const SCREEN_DEVIATIONS: f32 = 2.0;

/// Deviations by which a code may promise too little before its node cannot be within a range.
const FARTHEST_DEVIATIONS: f32 = 6.0;

/// Exact minus coded distances seen by one query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CodingError {
    pub(super) count: u32,
    pub(super) sum: f32,
    pub(super) squares: f32,
}

impl CodingError {
    /// A node was read that is so much farther than its code said.
    pub fn add(&mut self, difference: f32) {
        self.count += 1;
        self.sum += difference;
        self.squares += difference * difference;
    }

    /// The coded distance beyond which a candidate is not worth a read, where the `k`-th nearest
    /// known stands at `kth` and the user asked for a list of `list`. `None` while too few
    /// differences are known.
    pub fn reach(&self, kth: f32, k: usize, list: usize) -> Option<f32> {
        let (mean, variance) = self.mean_and_variance()?;
        let allowed = DEVIATIONS_PER_EFOLD * (list as f32 / k as f32).ln();
        let least = LEAST_DEVIATION * kth.abs();
        let deviation = variance.max(0.0).sqrt().max(least);
        let reach = kth - mean + allowed * deviation;
        reach.is_finite().then_some(reach)
    }

    /// The coded distance beyond which no candidate is nearer than `bound`, as far as can be told;
    /// infinite while too few differences are known.
    pub(super) fn farthest(&self, bound: f32) -> f32 {
        let Some((mean, variance)) = self.mean_and_variance() else { return f32::INFINITY };
        let deviation = variance.max(0.0).sqrt();
        Self::least_reach(bound).max(bound - mean + FARTHEST_DEVIATIONS * deviation)
    }

    /// What is explored at least around all that is nearer than `bound`.
    pub(super) fn least_reach(bound: f32) -> f32 {
        bound + LEAST_DEVIATION * bound.abs()
    }

    /// The coded distance beyond which hardly any candidate is nearer than `bound`; infinite while
    /// too few differences are known.
    pub(super) fn screen(&self, bound: f32) -> f32 {
        let Some((mean, variance)) = self.mean_and_variance() else { return f32::INFINITY };
        bound - mean + SCREEN_DEVIATIONS * variance.max(0.0).sqrt()
    }

    fn mean_and_variance(&self) -> Option<(f32, f32)> {
        if self.count < ENOUGH {
            return None;
        }
        let mean = self.sum / self.count as f32;
        let variance = self.squares / self.count as f32 - mean * mean;
        variance.is_finite().then_some((mean, variance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alternating(low: f32, high: f32, count: u32) -> CodingError {
        let mut error = CodingError::default();
        (0..count).for_each(|i| error.add(if i % 2 == 0 { low } else { high }));
        error
    }

    #[test]
    fn a_few_differences_say_nothing() {
        assert_eq!(alternating(1.0, 3.0, 7).reach(100.0, 10, 20), None);
        assert!(alternating(1.0, 3.0, 8).reach(100.0, 10, 20).is_some());
    }

    #[test]
    fn longer_lists_reach_farther_and_bias_is_taken_out() {
        // Codes promise 2 too little on average, with a deviation of 1.
        let error = alternating(1.0, 3.0, 100);
        assert_eq!(error.reach(30.0, 10, 10), Some(28.0));
        let twice = error.reach(30.0, 10, 20).unwrap();
        assert!((twice - (28.0 + 1.9 * 2f32.ln())).abs() < 1e-3, "{twice}");
        assert!(error.reach(30.0, 10, 80).unwrap() > twice);
    }

    #[test]
    fn exact_codes_do_not_make_the_list_meaningless() {
        let error = alternating(0.0, 0.0, 100);
        assert_eq!(error.reach(100.0, 10, 10), Some(100.0));
        let reach = error.reach(100.0, 10, 40).unwrap();
        assert!((reach - (100.0 + 3.0 * 1.9 * 4f32.ln())).abs() < 1e-3, "{reach}");
    }

    #[test]
    fn few_differences_screen_nothing_and_many_what_is_two_deviations_too_far() {
        assert_eq!(alternating(1.0, 3.0, 7).screen(10.0), f32::INFINITY);
        // A code of 10 means 12, give or take 1.
        assert_eq!(alternating(1.0, 3.0, 100).screen(10.0), 10.0);
        assert_eq!(alternating(0.0, 0.0, 100).screen(10.0), 10.0);
    }

    #[test]
    fn overflow_says_nothing_rather_than_stopping_the_search() {
        assert_eq!(alternating(-3e38, 3e38, 9).reach(0.0, 10, 20), None);
    }
}
