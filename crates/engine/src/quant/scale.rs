//! Whether codes can tell rows of every length apart; where they cannot, codes of
//! [any scale](super::any_scale) are trained.
//!
//! Product codes stand for what was near the rows of their training. A row far beyond these is
//! coded as their rim, and rows that are short beside the others have a few codes for all: the
//! estimates of either are ties, and a walk by them finds nothing. RaBitQ codes about the origin
//! keep the norm of each row as a number of its own and err in proportion to it, whatever it is; as
//! codes of rows that are alike in length they are longer or worse. So those are trained where
//! the others lose rows, and nowhere else. docs/decisions/0035 has the figures.

use rayon::prelude::*;

use super::any_scale::minds_length;
use super::codebook::Codebook;
use super::kind::CodeKind;
use crate::types::{VectorSet, fit_squared_norm};

/// A row may be so many times longer than what the longest code stands for. Up to there the
/// direction of a code at the rim tells a few such rows apart.
const REACH: f64 = 16.0;

/// A row that is so many times longer than the longest code is lost, too, where there are many of
/// them: each is coded as the rim, and errs by more than they lie apart.
const BEYOND: f64 = 2.0;

/// A row that is so many times shorter than the longest code is lost: centroids lie where the long
/// rows are, and tables of 16 bits span their distances.
const LOST: f64 = 64.0;

/// So many lost rows are found in any case: they share pages, and a candidate list has room for
/// them.
const FEW_LOST: u64 = 32;

/// In a larger set one row in so many may be lost, rather than that all have longer codes.
const LOST_SHARE: u64 = 4096;

/// How many of so many rows may be lost.
pub(crate) fn most_lost(rows: u64) -> u64 {
    FEW_LOST.max(rows / LOST_SHARE)
}

impl Codebook {
    /// Whether codes tell rows of this squared norm apart from longer and shorter ones.
    pub fn reaches(&self, squared_norm: f64) -> bool {
        self.squared_reach().is_none_or(|reach| squared_norm <= reach)
    }

    /// The largest squared norm that [is reached](Self::reaches); `None` where there is no bound.
    pub fn squared_reach(&self) -> Option<f64> {
        let bounded = self.kind() == CodeKind::Product && minds_length(self.metric());
        bounded.then(|| REACH * REACH * self.longest_squared())
    }

    /// Whether no code is as long as what has this squared norm: rows near it are coded as the rim,
    /// and the errors of other codes say nothing of theirs.
    pub fn is_beyond(&self, squared_norm: f64) -> bool {
        let applies = self.kind() == CodeKind::Product && minds_length(self.metric());
        applies && squared_norm > self.longest_squared()
    }

    /// Whether a row of this squared norm is lost among others, being far shorter than the longest
    /// code or far longer. A zero vector is not.
    pub fn loses(&self, squared_norm: f64) -> bool {
        let shortest = self.longest_squared() / (LOST * LOST);
        let is_short = squared_norm > 0.0 && squared_norm < shortest;
        minds_length(self.metric()) && is_short || self.is_beyond(squared_norm / (BEYOND * BEYOND))
    }

    /// How many rows are lost.
    pub fn count_lost(&self, set: VectorSet<'_>) -> u64 {
        let ty = set.vector_type();
        let is_lost = |row: &usize| {
            ty.is_float() && fit_squared_norm(set.row(*row), ty).is_ok_and(|norm| self.loses(norm))
        };
        (0..set.rows()).into_par_iter().filter(is_lost).count() as u64
    }
}
