//! Values that stand in a filter, also those that are put in for templates.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Add;

use super::number::{Number, as_integer};
use super::strings::quote;

/// A value that is known before any row.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A fraction.
    Float(f64),
    /// A text.
    Text(String),
    /// Microseconds since 1970-01-01T00:00:00 UTC.
    Instant(i64),
    /// A list.
    List(Vec<Constant>),
}

impl Hash for Constant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Bool(value) => value.hash(state),
            Self::Int(value) | Self::Instant(value) => value.hash(state),
            // Both zeros are equal.
            Self::Float(value) => (value + 0.0).to_bits().hash(state),
            Self::Text(value) => value.hash(state),
            Self::List(items) => items.hash(state),
        }
    }
}

/// Values for `{name}` in an expression, by name.
pub type Templates = BTreeMap<String, Constant>;

impl Constant {
    /// The number that it is.
    pub fn number(&self) -> Option<Number> {
        match self {
            Self::Int(value) => Some(Number::Int((*value).into())),
            Self::Float(value) => Some(Number::Float(*value)),
            _ => None,
        }
    }

    /// The same, where a fraction that is an integer stands as one: both are the same number.
    fn with_whole_numbers(self) -> Self {
        match self {
            Self::Float(value) => as_integer(value).map_or(self, Self::Int),
            Self::List(items) => {
                Self::List(items.into_iter().map(Self::with_whole_numbers).collect())
            }
            other => other,
        }
    }

    /// What it is, in the words of messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "Bool",
            Self::Int(_) => "Int64",
            Self::Float(_) => "Double",
            Self::Text(_) => "VarChar",
            Self::Instant(_) => "Timestamptz",
            Self::List(_) => "Array",
        }
    }

    /// Whether lists stand in each other deeper than this.
    pub(super) fn is_deeper_than(&self, depth: usize) -> bool {
        match (self, depth) {
            (Self::List(_), 0) => true,
            (Self::List(items), _) => items.iter().any(|item| item.is_deeper_than(depth - 1)),
            _ => false,
        }
    }

    /// How much it is; to be asked where lists are not deep.
    pub(super) fn size(&self) -> ConstantSize {
        let one = ConstantSize { values: 1, text_bytes: 0 };
        match self {
            Self::Text(text) => ConstantSize { text_bytes: text.len(), ..one },
            Self::List(items) => items.iter().map(Self::size).fold(one, Add::add),
            _ => one,
        }
    }

    /// Whether it is NaN, or a list with one; to be asked where lists are not deep.
    pub(super) fn has_nan(&self) -> bool {
        match self {
            Self::Float(value) => value.is_nan(),
            Self::List(items) => items.iter().any(Self::has_nan),
            _ => false,
        }
    }
}

/// How much there is of constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConstantSize {
    /// Values, and lists.
    pub(super) values: usize,
    /// Bytes of texts.
    pub(super) text_bytes: usize,
}

impl ConstantSize {
    /// Bytes of memory.
    pub(super) fn bytes(self) -> usize {
        self.values.saturating_mul(size_of::<Constant>()).saturating_add(self.text_bytes)
    }
}

impl Add for ConstantSize {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            values: self.values.saturating_add(other.values),
            text_bytes: self.text_bytes.saturating_add(other.text_bytes),
        }
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) => f.write_str(&quote(text)),
            Self::Instant(us) => write!(f, "{us} us since 1970"),
            Self::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// The values of a list, for looking one up: those of each type sorted, each once. Numbers are
/// the same where they compare as equal, so a fraction that is an integer stands among those.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConstantSet {
    bools: [bool; 2],
    ints: Vec<i64>,
    floats: Vec<f64>,
    texts: Vec<String>,
    instants: Vec<i64>,
    lists: Vec<Constant>,
}

impl ConstantSet {
    /// The set of these values. NaN equals nothing and is left out.
    pub fn new(values: Vec<Constant>) -> Self {
        let mut set = Self::default();
        let mut texts = BTreeSet::new();
        for value in values {
            match value {
                Constant::Bool(value) => set.bools[usize::from(value)] = true,
                Constant::Int(value) => set.ints.push(value),
                Constant::Float(value) => match as_integer(value) {
                    Some(int) => set.ints.push(int),
                    None if value.is_nan() => {}
                    None => set.floats.push(value),
                },
                Constant::Text(text) => drop(texts.insert(text)),
                Constant::Instant(us) => set.instants.push(us),
                Constant::List(_) => {
                    let list = value.with_whole_numbers();
                    if !set.lists.contains(&list) {
                        set.lists.push(list);
                    }
                }
            }
        }
        set.texts = texts.into_iter().collect();
        set.floats.sort_unstable_by(f64::total_cmp);
        set.floats.dedup();
        for integers in [&mut set.ints, &mut set.instants] {
            integers.sort_unstable();
            integers.dedup();
        }
        set
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many values are in it.
    pub fn len(&self) -> usize {
        self.bools() + self.numbers() + self.texts() + self.instants() + self.lists()
    }

    /// How many bools are in it.
    pub(super) fn bools(&self) -> usize {
        self.bools.iter().filter(|there| **there).count()
    }

    /// How many numbers are in it.
    pub(super) fn numbers(&self) -> usize {
        self.ints.len() + self.floats.len()
    }

    /// How many texts are in it.
    pub(super) fn texts(&self) -> usize {
        self.texts.len()
    }

    /// How many instants are in it.
    pub(super) fn instants(&self) -> usize {
        self.instants.len()
    }

    /// How many lists are in it.
    pub(super) fn lists(&self) -> usize {
        self.lists.len()
    }

    /// All values, those of each type in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Constant> + '_ {
        let bools = [false, true].into_iter().filter(|value| self.bools[usize::from(*value)]);
        bools
            .map(Constant::Bool)
            .chain(self.ints.iter().copied().map(Constant::Int))
            .chain(self.floats.iter().copied().map(Constant::Float))
            .chain(self.texts.iter().cloned().map(Constant::Text))
            .chain(self.instants.iter().copied().map(Constant::Instant))
            .chain(self.lists.iter().cloned())
    }

    /// The place of a bool among the [values](Self::iter).
    pub fn place_of_bool(&self, value: bool) -> Option<usize> {
        let before = usize::from(value && self.bools[0]);
        self.bools[usize::from(value)].then_some(before)
    }

    /// The place of a number.
    pub fn place_of_number(&self, value: Number) -> Option<usize> {
        let before = self.bools();
        let int = match value {
            Number::Int(value) => i64::try_from(value).ok(),
            Number::Float(value) => as_integer(value),
        };
        if let Some(int) = int {
            return self.ints.binary_search(&int).ok().map(|at| before + at);
        }
        let float = match value {
            // Beyond 64 bits it is among the fractions, if one of them is the same number.
            Number::Int(value) => Some(value as f64).filter(|f| *f as i128 == value)?,
            Number::Float(value) => value,
        };
        let at = self.floats.binary_search_by(|f| f.total_cmp(&float)).ok()?;
        Some(before + self.ints.len() + at)
    }

    /// The place of a text.
    pub fn place_of_text(&self, value: &str) -> Option<usize> {
        let at = self.texts.binary_search_by(|text| text.as_str().cmp(value)).ok()?;
        Some(self.len() - self.lists.len() - self.instants.len() - self.texts.len() + at)
    }

    /// The place of an instant.
    pub fn place_of_instant(&self, value: i64) -> Option<usize> {
        let at = self.instants.binary_search(&value).ok()?;
        Some(self.len() - self.lists.len() - self.instants.len() + at)
    }

    /// The place of a list, which `is` the one that is looked for.
    pub fn place_of_list(&self, is: impl FnMut(&Constant) -> bool) -> Option<usize> {
        let at = self.lists.iter().position(is)?;
        Some(self.len() - self.lists.len() + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_looked_up_by_what_they_are() {
        let text = |text: &str| Constant::Text(text.into());
        let set = ConstantSet::new(vec![
            Constant::Int(3),
            Constant::Float(2.0),
            Constant::Float(0.5),
            Constant::Float((1u128 << 70) as f64),
            Constant::Float(f64::NAN),
            text("a"),
            text("a"),
            Constant::Bool(true),
            Constant::Instant(7),
            Constant::List(vec![Constant::Int(1)]),
        ]);
        assert_eq!(set.len(), 8);
        assert_eq!(set.iter().count(), 8);
        let all: Vec<Constant> = set.iter().collect();
        for (number, place) in [
            (Number::Int(2), Some(1)),
            (Number::Float(3.0), Some(2)),
            (Number::Float(0.5), Some(3)),
            (Number::Float((1u128 << 70) as f64), Some(4)),
            (Number::Int(1i128 << 70), Some(4)),
            (Number::Int((1i128 << 70) + 1), None),
            (Number::Int(4), None),
            (Number::Float(0.25), None),
            (Number::Float(f64::NAN), None),
        ] {
            assert_eq!(set.place_of_number(number), place, "{number:?}");
            let found = place.and_then(|at| all[at].number()).map(|found| found.compare(number));
            assert_eq!(found, place.map(|_| Some(std::cmp::Ordering::Equal)), "{number:?}");
        }
        assert_eq!((set.place_of_bool(true), set.place_of_bool(false)), (Some(0), None));
        assert_eq!((set.place_of_text("a"), set.place_of_text("b")), (Some(5), None));
        assert_eq!((set.place_of_instant(7), set.place_of_instant(2)), (Some(6), None));
        let list = Constant::List(vec![Constant::Int(1)]);
        assert_eq!(set.place_of_list(|found| *found == list), Some(7));
        assert_eq!((&all[0], &all[5], &all[7]), (&Constant::Bool(true), &text("a"), &list));
        assert!(ConstantSet::new(Vec::new()).is_empty());
    }
}
