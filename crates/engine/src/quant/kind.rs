//! The kinds of codes, and which lengths each can have.

use std::fmt;
use std::str::FromStr;

use crate::format::constants::rabitq_code;

/// Bytes of the factors in front of the components of a RaBitQ code.
pub(super) const FACTOR_BYTES: usize = rabitq_code::BYTES;

/// Components of vectors as they are turned for RaBitQ codes: whole bytes of bits.
pub(super) fn padded(dim: usize) -> usize {
    dim.next_multiple_of(8)
}

/// How vectors are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeKind {
    /// Product quantisation: 256 trained centroids for each byte.
    Product,
    /// RaBitQ: some bits for each component of the vector turned at random, and two factors. Needs
    /// a mean and no training.
    Rabitq,
}

impl CodeKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Product, Self::Rabitq];

    /// The most bits of a component that [`Rabitq`](Self::Rabitq) knows.
    pub const MOST_BITS: usize = 8;

    /// The name by which users choose it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Product => "pq",
            Self::Rabitq => "rabitq",
        }
    }

    /// Bytes of the longest code that needs at most `bytes` for vectors of `dim` components;
    /// `None` where no code is so short.
    pub fn longest_within(self, dim: usize, bytes: usize) -> Option<usize> {
        match self {
            Self::Product => Some(bytes.min(dim)).filter(|&fits| fits > 0),
            Self::Rabitq => {
                let plane = padded(dim) / 8;
                let bits = bytes.saturating_sub(FACTOR_BYTES) / plane;
                (bits > 0).then(|| bits.min(Self::MOST_BITS) * plane + FACTOR_BYTES)
            }
        }
    }

    /// The shortest and the longest code for vectors of `dim` components, bytes.
    pub fn code_bytes_range(self, dim: usize) -> (usize, usize) {
        let longest = self.longest_within(dim, usize::MAX / 2).unwrap_or(dim);
        match self {
            Self::Product => (1, longest),
            Self::Rabitq => (padded(dim) / 8 + FACTOR_BYTES, longest),
        }
    }
}

impl fmt::Display for CodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kind of codes by a name that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no codes are called `{0}`; there are pq and rabitq")]
pub struct UnknownCodeKind(pub String);

impl FromStr for CodeKind {
    type Err = UnknownCodeKind;

    fn from_str(name: &str) -> Result<Self, UnknownCodeKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownCodeKind(name.to_owned()))
    }
}
