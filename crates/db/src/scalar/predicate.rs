//! Conditions on one field, and what they mean for keys.
//!
//! The logic has three values, as the filter language has: of a row whose field is null every
//! condition but [`Condition::IsNull`] is neither true nor false.

use std::ops::Bound;

use super::column::ScalarColumn;
use super::key::{KeyRange, KeySet, Wanted, after};
use super::truth::TernaryBits;
use super::value_keys::ValueKeys;
use crate::schema::FieldId;
use crate::value::Value;

/// What is asked of one field. Values are of the field's type, or of the type of its elements;
/// integers of any width, and floats of both.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Is this value.
    Equal(Value),
    /// Is one of these.
    OneOf(Vec<Value>),
    /// Lies between these.
    Within(Bound<Value>, Bound<Value>),
    /// Is a text that begins so.
    StartsWith(String),
    /// Is null.
    IsNull,
    /// Is an array with this element.
    Contains(Value),
    /// Is an array with all of these; true of every array where there are none.
    ContainsAll(Vec<Value>),
    /// Is an array with one of these at least.
    ContainsAny(Vec<Value>),
}

/// A condition on a column, in keys.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPredicate {
    pub(super) field: FieldId,
    pub(super) test: KeyTest,
    /// Of rows that are older than the field.
    pub(super) absent: TernaryBits,
}

/// What is asked of keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum KeyTest {
    /// A row whose key is in `maybe` may have the value, one whose key is in `sure` has it.
    Keys {
        maybe: KeySet,
        sure: KeySet,
    },
    Null,
    /// All of these elements, ascending and each once.
    All(Vec<Wanted>),
    /// One of these at least, ascending and each once.
    Any(Vec<Wanted>),
}

impl KeyPredicate {
    /// The condition on the column; `None` where the index cannot answer it: operation or values
    /// do not fit the type.
    #[must_use]
    pub fn new(column: &ScalarColumn, condition: &Condition) -> Option<Self> {
        let test = KeyTest::new(column, condition)?;
        let mut keys = ValueKeys::default();
        keys.set(column.absent.as_ref());
        let absent = test.truth(keys.is_null, keys.iter());
        Some(Self { field: column.field, test, absent })
    }

    /// Matches the rows of which this one is false, null being neither; `None` where that is no
    /// set of values.
    #[must_use]
    pub fn opposite(&self) -> Option<Self> {
        let KeyTest::Keys { maybe, sure } = &self.test else { return None };
        let test = KeyTest::Keys { maybe: sure.complement(), sure: maybe.complement() };
        Some(Self { field: self.field, test, absent: self.absent.not() })
    }

    /// The field whose single value it is about, as far as [`all`](Self::all) takes it.
    #[must_use]
    pub fn valued_field(&self) -> Option<FieldId> {
        matches!(self.test, KeyTest::Keys { .. }).then_some(self.field)
    }

    /// Matches the rows that all of these match; `None` where they are not about values of one field,
    /// or there are none.
    #[must_use]
    pub fn all(of: &[Self]) -> Option<Self> {
        let field = of.first()?.field;
        let sets = of.iter().map(|one| match &one.test {
            KeyTest::Keys { maybe, sure } if one.field == field => Some((maybe, sure)),
            _ => None,
        });
        let sets: Vec<_> = sets.collect::<Option<_>>()?;
        let test = KeyTest::Keys {
            maybe: KeySet::intersection(sets.iter().map(|(maybe, _)| *maybe)),
            sure: KeySet::intersection(sets.iter().map(|(_, sure)| *sure)),
        };
        let absent = of.iter().map(|one| one.absent).reduce(TernaryBits::and)?;
        Some(Self { field, test, absent })
    }

    /// Whether the index names no row too many.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.test.is_exact()
    }
}

impl KeyTest {
    fn new(column: &ScalarColumn, condition: &Condition) -> Option<Self> {
        let wanted = |value: &Value| Wanted::new(value.as_ref(), column.scalar);
        let several = |values: &[Value]| values.iter().map(wanted).collect::<Option<Vec<_>>>();
        let sorted = |values: &[Value]| {
            let mut wanted = several(values)?;
            wanted.sort_unstable();
            wanted.dedup();
            Some(wanted)
        };
        Some(match condition {
            Condition::IsNull => Self::Null,
            Condition::Contains(value) if column.array => Self::All(vec![wanted(value)?]),
            Condition::ContainsAll(values) if column.array => Self::All(sorted(values)?),
            Condition::ContainsAny(values) if column.array => Self::Any(sorted(values)?),
            Condition::Equal(value) if !column.array => Self::points(&[wanted(value)?]),
            Condition::OneOf(values) if !column.array => Self::points(&several(values)?),
            Condition::Within(from, to) if !column.array => {
                let bound = |bound: &Bound<Value>| match bound {
                    Bound::Unbounded => Some(Bound::Unbounded),
                    Bound::Included(value) => wanted(value).map(Bound::Included),
                    Bound::Excluded(value) => wanted(value).map(Bound::Excluded),
                };
                let (from, to) = (bound(from)?, bound(to)?);
                Self::Keys { maybe: between(&from, &to, true), sure: between(&from, &to, false) }
            }
            Condition::StartsWith(prefix) if !column.array => {
                let text = Wanted::new(Value::VarChar(prefix.clone()).as_ref(), column.scalar)?;
                let maybe = KeySet::new(vec![KeyRange::prefixed(&text.key)]);
                // Keys are cut behind the prefix, unless it is longer than they are.
                let sure =
                    if text.key.len() == prefix.len() { maybe.clone() } else { KeySet::default() };
                Self::Keys { maybe, sure }
            }
            _ => return None,
        })
    }

    fn points(wanted: &[Wanted]) -> Self {
        let set = |points: &mut dyn Iterator<Item = &Wanted>| {
            KeySet::new(points.map(|wanted| KeyRange::only(&wanted.key)).collect())
        };
        let maybe = set(&mut wanted.iter());
        Self::Keys { maybe, sure: set(&mut wanted.iter().filter(|wanted| wanted.whole)) }
    }

    /// Whether the rows of the keys are those of the values.
    pub(super) fn is_exact(&self) -> bool {
        match self {
            Self::Keys { maybe, sure } => maybe == sure,
            Self::Null => true,
            Self::All(wanted) | Self::Any(wanted) => wanted.iter().all(|wanted| wanted.whole),
        }
    }

    /// What is known of a row with these keys.
    pub(super) fn truth<'k>(
        &self,
        is_null: bool,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
    ) -> TernaryBits {
        match self {
            Self::Null => TernaryBits::new(is_null, !is_null),
            _ if is_null => TernaryBits::UNKNOWN,
            Self::Keys { maybe, sure } => keys.clone().next().map_or(TernaryBits::UNKNOWN, |key| {
                let held = maybe.contains(key);
                TernaryBits::new(held, !held || !sure.contains(key))
            }),
            Self::All(wanted) => {
                let held = has_all(keys, wanted);
                TernaryBits::new(held, !held || !wanted.iter().all(|wanted| wanted.whole))
            }
            Self::Any(wanted) => {
                let (mut held, mut proven) = (false, false);
                for at in keys.filter_map(|key| place_of(key, wanted)) {
                    (held, proven) = (true, wanted[at].whole);
                    if proven {
                        break;
                    }
                }
                TernaryBits::new(held, !proven)
            }
        }
    }
}

/// Where the element of a key stands among these.
fn place_of(key: &[u8], wanted: &[Wanted]) -> Option<usize> {
    wanted.binary_search_by(|wanted| wanted.key.as_slice().cmp(key)).ok()
}

/// Whether all of these, of which no two are the same, are among the keys of a row.
fn has_all<'k>(keys: impl Iterator<Item = &'k [u8]> + Clone, wanted: &[Wanted]) -> bool {
    /// Elements up to which keys are gone through for each, and not sorted.
    const FEW: usize = 8;
    if wanted.len() <= FEW {
        return wanted.iter().all(|wanted| keys.clone().any(|key| *key == *wanted.key));
    }
    if keys.clone().count() < wanted.len() {
        return false;
    }
    let mut keys: Vec<_> = keys.collect();
    keys.sort_unstable();
    wanted.iter().all(|wanted| keys.binary_search(&wanted.key.as_slice()).is_ok())
}

/// The keys between two bounds. A bound that was cut counts as included or not by `cut`.
fn between(from: &Bound<Wanted>, to: &Bound<Wanted>, cut: bool) -> KeySet {
    let from = match from {
        Bound::Unbounded => Vec::new(),
        Bound::Included(w) if w.whole || cut => w.key.clone(),
        Bound::Excluded(w) if !w.whole && cut => w.key.clone(),
        Bound::Included(w) | Bound::Excluded(w) => after(&w.key),
    };
    let until = match to {
        Bound::Unbounded => None,
        Bound::Included(w) if w.whole || cut => Some(after(&w.key)),
        Bound::Excluded(w) if !w.whole && cut => Some(after(&w.key)),
        Bound::Included(w) | Bound::Excluded(w) => Some(w.key.clone()),
    };
    KeySet::new(vec![KeyRange { from, until }])
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::value::{Array, ScalarType};

    #[test]
    fn a_row_is_not_gone_through_again_for_each_of_many_elements() {
        let (field, scalar) = (FieldId(1), ScalarType::Int64);
        let column = ScalarColumn { field, scalar, array: true, absent: Value::Null };
        let wanted: Vec<_> = (0..20_000).rev().chain(0..5).map(Value::Int64).collect();
        let any = Condition::ContainsAny(wanted.clone());
        let all = Condition::ContainsAll(wanted);
        for (condition, elements, truth) in [
            (&any, -1_000..0, TernaryBits::FALSE),
            (&any, -1_000..1, TernaryBits::TRUE),
            (&all, -1_000..1_000, TernaryBits::FALSE),
            (&all, -1_000..19_999, TernaryBits::FALSE),
            (&all, -1_000..20_000, TernaryBits::TRUE),
        ] {
            let values: Vec<_> = elements.clone().map(Value::Int64).collect();
            let array = Array::collect(scalar, values.iter().map(Value::as_ref)).unwrap();
            let mut keys = ValueKeys::default();
            keys.set(Value::Array(array).as_ref());
            let looked_at = Cell::new(0);
            let counted = keys.iter().inspect(|_| looked_at.set(looked_at.get() + 1));
            let test = KeyTest::new(&column, condition).unwrap();
            assert_eq!(test.truth(false, counted), truth, "{elements:?}");
            assert!(looked_at.get() <= 2 * values.len(), "{elements:?}: {looked_at:?}");
        }
    }
}
