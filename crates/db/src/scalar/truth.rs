//! What can be said of a condition without looking at the row: the outcomes that are possible.
//!
//! A condition is true, false, or unknown where a field is null. A [`TernaryBits`] is the set of those
//! that are still possible; logic on sets never loses one that is, so whatever is combined with
//! and, or and not, a row that matches is never ruled out.

/// See the module's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TernaryBits(u8);

const T: u8 = 1;
const F: u8 = 2;
const U: u8 = 4;

impl TernaryBits {
    pub(super) const TRUE: Self = Self(T);
    pub(super) const FALSE: Self = Self(F);
    /// The field is null.
    pub(super) const UNKNOWN: Self = Self(U);
    pub(super) const ANYTHING: Self = Self(T | F | U);

    /// Of a row whose field is not null.
    #[inline]
    pub(super) fn new(may_be_true: bool, may_be_false: bool) -> Self {
        Self(if may_be_true { T } else { 0 } | if may_be_false { F } else { 0 })
    }

    /// Can be true.
    #[inline]
    pub(super) fn may_hold(self) -> bool {
        self.0 & T != 0
    }

    /// Is true, whatever the row says.
    #[inline]
    pub(super) fn holds(self) -> bool {
        self == Self::TRUE
    }

    #[inline]
    pub(super) fn not(self) -> Self {
        Self(self.0 & U | (self.0 & T) << 1 | (self.0 & F) >> 1)
    }

    #[inline]
    pub(super) fn and(self, other: Self) -> Self {
        let (both, either) = (self.0 & other.0, self.0 | other.0);
        // Unknown comes of unknown with unknown or true.
        let unknown =
            self.0 & U != 0 && other.0 & (T | U) != 0 || other.0 & U != 0 && self.0 & T != 0;
        Self(both & T | either & F | if unknown { U } else { 0 })
    }

    #[inline]
    pub(super) fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: [TernaryBits; 3] = [TernaryBits::TRUE, TernaryBits::FALSE, TernaryBits::UNKNOWN];

    fn sets() -> impl Iterator<Item = TernaryBits> {
        (1..8).map(TernaryBits)
    }

    /// The outcome of single ones, in the words of the logic.
    fn and(a: TernaryBits, b: TernaryBits) -> TernaryBits {
        match (a, b) {
            (TernaryBits::FALSE, _) | (_, TernaryBits::FALSE) => TernaryBits::FALSE,
            (TernaryBits::TRUE, b) => b,
            (a, _) => a,
        }
    }

    fn of_members(a: TernaryBits, b: TernaryBits) -> TernaryBits {
        let possible = |set: TernaryBits| ONE.into_iter().filter(move |one| set.0 & one.0 != 0);
        TernaryBits(
            possible(a).flat_map(|a| possible(b).map(move |b| and(a, b).0)).fold(0, |a, b| a | b),
        )
    }

    #[test]
    fn sets_combine_as_their_members_do() {
        for a in sets() {
            for b in sets() {
                assert_eq!(a.and(b), of_members(a, b), "{a:?} and {b:?}");
                assert_eq!(a.or(b), of_members(a.not(), b.not()).not(), "{a:?} or {b:?}");
            }
            assert_eq!(a.not().not(), a);
        }
        assert_eq!(
            ONE.map(TernaryBits::not),
            [TernaryBits::FALSE, TernaryBits::TRUE, TernaryBits::UNKNOWN]
        );
    }
}
