//! Values as bytes that sort as the values do, and sets of ranges of them.
//!
//! A number is 8 bytes, big-endian: integers and instants with the sign bit flipped, floats of
//! both widths as a double whose bits are flipped by its sign. A bool is one byte, a text its
//! UTF-8. A text longer than [`KEY_BYTES`] is cut there; whoever asks for one gets an answer that
//! has to be checked by the row.

use crate::value::{ScalarType, ValueRef};

/// The longest key, bytes.
pub(super) const KEY_BYTES: usize = 64;

const SIGN: u64 = 1 << 63;

/// The key of a scalar, into `out`; `false` where there is none.
pub(super) fn key_of(value: ValueRef<'_>, out: &mut Vec<u8>) -> bool {
    out.clear();
    match value {
        ValueRef::Bool(v) => out.push(v.into()),
        ValueRef::Float(v) => out.extend(double_key(v.into())),
        ValueRef::Double(v) => out.extend(double_key(v)),
        ValueRef::Timestamptz(v) => out.extend(integer_key(v)),
        ValueRef::VarChar(v) => out.extend(&v.as_bytes()[..v.len().min(KEY_BYTES)]),
        other => match other.integer() {
            Some(v) => out.extend(integer_key(v)),
            None => return false,
        },
    }
    true
}

fn integer_key(v: i64) -> [u8; 8] {
    (v.cast_unsigned() ^ SIGN).to_be_bytes()
}

fn double_key(v: f64) -> [u8; 8] {
    // Both zeros are one number.
    let bits = if v == 0.0 { 0 } else { v.to_bits() };
    let flip = if bits & SIGN == 0 { SIGN } else { u64::MAX };
    (bits ^ flip).to_be_bytes()
}

/// The key that a condition asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    pub(super) key: Vec<u8>,
    /// Whether only the value that is asked for has this key.
    pub(super) whole: bool,
}

impl Wanted {
    /// The key of `value` among values of the type; `None` where the type cannot hold it.
    pub(super) fn new(value: ValueRef<'_>, of: ScalarType) -> Option<Self> {
        let comparable = match of {
            ScalarType::Bool => matches!(value, ValueRef::Bool(_)),
            ScalarType::VarChar => matches!(value, ValueRef::VarChar(_)),
            ScalarType::Timestamptz => matches!(value, ValueRef::Timestamptz(_)),
            ScalarType::Float | ScalarType::Double => match value {
                ValueRef::Float(v) => v.is_finite(),
                ValueRef::Double(v) => v.is_finite(),
                _ => false,
            },
            _ => value.integer().is_some(),
        };
        let mut key = Vec::new();
        (comparable && key_of(value, &mut key)).then(|| {
            let whole = key.len() < KEY_BYTES;
            Self { key, whole }
        })
    }
}

/// Keys from one on, up to another that is not included; without it, all that follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub(super) from: Vec<u8>,
    pub(super) until: Option<Vec<u8>>,
}

impl KeyRange {
    /// One key.
    pub(super) fn only(key: &[u8]) -> Self {
        Self { from: key.to_vec(), until: Some(after(key)) }
    }

    /// All keys that begin with `prefix`.
    pub(super) fn prefixed(prefix: &[u8]) -> Self {
        let mut until = prefix.to_vec();
        while until.pop_if(|last| *last == u8::MAX).is_some() {}
        let until = until.split_last().map(|(last, head)| [head, &[last + 1]].concat());
        Self { from: prefix.to_vec(), until }
    }

    fn is_empty(&self) -> bool {
        self.until.as_ref().is_some_and(|until| *until <= self.from)
    }

    /// Whether there is one key in it.
    pub(super) fn is_one_key(&self) -> bool {
        self.until.as_deref().and_then(|until| until.strip_suffix(&[0])) == Some(&self.from)
    }

    /// Whether all of it stands before `key`.
    pub(super) fn ends_before(&self, key: &[u8]) -> bool {
        self.until.as_deref().is_some_and(|until| until <= key)
    }
}

/// The key that follows directly.
pub(super) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Ranges of keys, ascending, with gaps between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeySet(Vec<KeyRange>);

impl KeySet {
    pub(super) fn new(mut ranges: Vec<KeyRange>) -> Self {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by(|a, b| a.from.cmp(&b.from));
        let mut set: Vec<KeyRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match set.last_mut() {
                Some(last) if last.until.as_ref().is_none_or(|until| range.from <= *until) => {
                    let longer = match (&last.until, &range.until) {
                        (Some(a), Some(b)) => b > a,
                        (Some(_), None) => true,
                        (None, _) => false,
                    };
                    if longer {
                        last.until = range.until;
                    }
                }
                _ => set.push(range),
            }
        }
        Self(set)
    }

    pub(super) fn ranges(&self) -> &[KeyRange] {
        &self.0
    }

    /// The ranges that do not end before `key`.
    pub(super) fn reaching(&self, key: &[u8]) -> &[KeyRange] {
        &self.0[self.0.partition_point(|range| range.ends_before(key))..]
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.reaching(key).first().is_some_and(|range| *range.from <= *key)
    }

    /// Whether a key from `first` to `last`, both included, can be in it.
    pub(super) fn intersects(&self, first: &[u8], last: &[u8]) -> bool {
        self.reaching(first).first().is_some_and(|range| *range.from <= *last)
    }

    /// Whether all keys from `first` to `last`, both included, are in it.
    pub(super) fn covers(&self, first: &[u8], last: &[u8]) -> bool {
        self.reaching(first)
            .first()
            .is_some_and(|range| *range.from <= *first && !range.ends_before(last))
    }

    /// All keys that are not in it.
    pub(super) fn complement(&self) -> Self {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut from = Some(Vec::new());
        for range in &self.0 {
            let before = from.take().expect("only the last range has no end");
            gaps.push(KeyRange { from: before, until: Some(range.from.clone()) });
            from.clone_from(&range.until);
        }
        gaps.extend(from.map(|from| KeyRange { from, until: None }));
        Self::new(gaps)
    }

    /// The keys that are in all of these.
    pub(super) fn intersection<'s>(sets: impl Iterator<Item = &'s Self>) -> Self {
        Self::new(sets.flat_map(|set| set.complement().0).collect()).complement()
    }

    /// What of it lies from `first` to `last`, both included.
    pub(super) fn within(&self, first: &[u8], last: &[u8], out: &mut Vec<KeyRange>) {
        let end = after(last);
        for range in self.reaching(first).iter().take_while(|range| *range.from <= *last) {
            let until = range.until.as_ref().map_or(&end, |until| until.min(&end));
            let from = range.from.as_slice().max(first).to_vec();
            out.push(KeyRange { from, until: Some(until.clone()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(value: ValueRef<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(key_of(value, &mut out));
        out
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(255)], 0..4)
    }

    fn set() -> impl Strategy<Value = Vec<KeyRange>> {
        let range = (bytes(), proptest::option::of(bytes()));
        let range = range.prop_map(|(from, until)| KeyRange { from, until });
        proptest::collection::vec(range, 0..5)
    }

    proptest! {
        #[test]
        fn keys_of_numbers_sort_as_the_numbers(a in any::<i64>(), b in any::<i64>(), x in any::<f64>(), y in any::<f64>()) {
            prop_assert_eq!(key(ValueRef::Int64(a)).cmp(&key(ValueRef::Int64(b))), a.cmp(&b));
            if let Some(order) = x.partial_cmp(&y) {
                prop_assert_eq!(key(ValueRef::Double(x)).cmp(&key(ValueRef::Double(y))), order);
            }
        }

        #[test]
        fn a_set_holds_what_its_ranges_hold(ranges in set(), first in bytes(), last in bytes()) {
            let set = KeySet::new(ranges.clone());
            let holds = |key: &Vec<u8>| ranges.iter().any(|r| r.from <= *key && r.until.as_ref().is_none_or(|u| key < u));
            prop_assert_eq!(set.contains(&first), holds(&first));
            if first <= last {
                if holds(&first) || holds(&last) {
                    prop_assert!(set.intersects(&first, &last));
                }
                if set.covers(&first, &last) {
                    prop_assert!(holds(&first) && holds(&last));
                }
                let mut part = Vec::new();
                set.within(&first, &last, &mut part);
                let part = KeySet::new(part);
                prop_assert_eq!(part.contains(&first), holds(&first));
                prop_assert_eq!(part.contains(&last), holds(&last));
                prop_assert!(!part.contains(&after(&last)));
            }
        }

        #[test]
        fn sets_are_turned_round_and_cut(a in set(), b in set(), key in bytes()) {
            let (a, b) = (KeySet::new(a), KeySet::new(b));
            prop_assert_eq!(a.complement().contains(&key), !a.contains(&key));
            prop_assert_eq!(a.complement().complement(), a.clone());
            let both = a.contains(&key) && b.contains(&key);
            prop_assert_eq!(KeySet::intersection([&a, &b].into_iter()).contains(&key), both);
        }

        #[test]
        fn a_prefix_holds_what_begins_with_it(prefix in bytes(), key in bytes()) {
            let set = KeySet::new(vec![KeyRange::prefixed(&prefix)]);
            prop_assert_eq!(set.contains(&key), key.starts_with(&prefix));
        }
    }

    #[test]
    fn both_zeros_and_both_widths_have_one_key() {
        assert_eq!(key(ValueRef::Double(-0.0)), key(ValueRef::Float(0.0)));
        assert_eq!(key(ValueRef::Float(0.1)), key(ValueRef::Double(f64::from(0.1_f32))));
        assert_eq!(key(ValueRef::Int8(-3)), key(ValueRef::Int64(-3)));
    }

    #[test]
    fn a_key_of_full_length_may_be_that_of_another_text() {
        let text = "x".repeat(KEY_BYTES);
        assert!(!Wanted::new(ValueRef::VarChar(&text), ScalarType::VarChar).unwrap().whole);
        assert!(Wanted::new(ValueRef::VarChar(&text[1..]), ScalarType::VarChar).unwrap().whole);
    }
}
