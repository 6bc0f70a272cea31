//! Numbers of any kind against each other, without loss: an integer is never rounded to a double
//! in order to be compared with one.

use std::cmp::Ordering;

/// A number. Integers of fields and constants have 64 bits with a sign, those of JSON also 64
/// without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Int(i128),
    /// A fraction, or what is too large for an integer.
    Float(f64),
}

/// 2^127, the first that no `i128` holds.
const BEYOND: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

impl Number {
    /// Which is larger; `None` where one is NaN.
    pub fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b),
            (Self::Int(a), Self::Float(b)) => compare_mixed(a, b),
            (Self::Float(a), Self::Int(b)) => compare_mixed(b, a).map(Ordering::reverse),
        }
    }
}

fn compare_mixed(int: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= BEYOND {
        return Some(Ordering::Less);
    }
    if float < -BEYOND {
        return Some(Ordering::Greater);
    }
    // Exact: the whole part is within range.
    let whole = float.trunc() as i128;
    Some(int.cmp(&whole).then_with(|| match float.fract() {
        fraction if fraction > 0.0 => Ordering::Less,
        fraction if fraction < 0.0 => Ordering::Greater,
        _ => Ordering::Equal,
    }))
}

/// The 64-bit integer that a double is, if it is one.
pub(super) fn as_integer(float: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let is_one = float.fract() == 0.0 && (-LIMIT..LIMIT).contains(&float);
    is_one.then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_not_rounded() {
        let large = (1i128 << 53) + 1;
        let cases = [
            (large, 9_007_199_254_740_992.0, Some(Ordering::Greater)),
            (large, 9_007_199_254_740_994.0, Some(Ordering::Less)),
            (i128::from(i64::MAX), 9_223_372_036_854_775_808.0, Some(Ordering::Less)),
            (i128::from(i64::MIN), -9_223_372_036_854_775_808.0, Some(Ordering::Equal)),
            (0, -0.0, Some(Ordering::Equal)),
            (-1, -1.5, Some(Ordering::Greater)),
            (1, 1.5, Some(Ordering::Less)),
            (5, f64::INFINITY, Some(Ordering::Less)),
            (5, f64::NEG_INFINITY, Some(Ordering::Greater)),
            (5, 1e300, Some(Ordering::Less)),
            (5, f64::NAN, None),
        ];
        for (int, float, order) in cases {
            let (int, float) = (Number::Int(int), Number::Float(float));
            assert_eq!(int.compare(float), order, "{int:?} {float:?}");
            assert_eq!(float.compare(int), order.map(Ordering::reverse), "{float:?} {int:?}");
        }
    }

    #[test]
    fn doubles_that_are_integers_are_found() {
        assert_eq!(as_integer(-3.0), Some(-3));
        assert_eq!(as_integer(9_223_372_036_854_775_808.0), None);
        assert_eq!(as_integer(-9_223_372_036_854_775_808.0), Some(i64::MIN));
        assert_eq!([0.5, f64::NAN, f64::INFINITY].map(as_integer), [None; 3]);
    }
}
