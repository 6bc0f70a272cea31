//! Values that stand in a filter, also those that are put in for templates.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

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

    /// Whether it is NaN, or a list with one; to be asked where lists are not deep.
    pub(super) fn has_nan(&self) -> bool {
        match self {
            Self::Float(value) => value.is_nan(),
            Self::List(items) => items.iter().any(Self::has_nan),
            _ => false,
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
                Constant::List(_) if set.lists.contains(&value) => {}
                Constant::List(_) => set.lists.push(value),
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
        let bools = self.bools.iter().filter(|there| **there).count();
        let numbers = self.ints.len() + self.floats.len();
        bools + numbers + self.texts.len() + self.instants.len() + self.lists.len()
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

    /// Whether a bool is in it.
    pub fn has_bool(&self, value: bool) -> bool {
        self.bools[usize::from(value)]
    }

    /// Whether a number is in it.
    pub fn has_number(&self, value: Number) -> bool {
        let has = |int| self.ints.binary_search(&int).is_ok();
        match value {
            Number::Int(value) => match i64::try_from(value) {
                Ok(value) => has(value),
                Err(_) => self.floats.iter().any(|f| {
                    Number::Float(*f).compare(Number::Int(value)) == Some(std::cmp::Ordering::Equal)
                }),
            },
            Number::Float(value) => match as_integer(value) {
                Some(value) => has(value),
                None => self.floats.binary_search_by(|f| f.total_cmp(&value)).is_ok(),
            },
        }
    }

    /// Whether a text is in it.
    pub fn has_text(&self, value: &str) -> bool {
        self.texts.binary_search_by(|text| text.as_str().cmp(value)).is_ok()
    }

    /// Whether an instant is in it.
    pub fn has_instant(&self, value: i64) -> bool {
        self.instants.binary_search(&value).is_ok()
    }

    /// The lists that are in it.
    pub fn lists(&self) -> &[Constant] {
        &self.lists
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
            Constant::Float(1e30),
            Constant::Float(f64::NAN),
            text("a"),
            text("a"),
            Constant::Bool(true),
            Constant::Instant(7),
            Constant::List(vec![Constant::Int(1)]),
        ]);
        assert_eq!(set.len(), 8);
        assert_eq!(set.iter().count(), 8);
        for (number, there) in [
            (Number::Int(2), true),
            (Number::Float(3.0), true),
            (Number::Float(0.5), true),
            (Number::Int(4), false),
            (Number::Float(0.25), false),
            (Number::Float(f64::NAN), false),
            (Number::Int(1i128 << 70), false),
        ] {
            assert_eq!(set.has_number(number), there, "{number:?}");
        }
        assert!(set.has_text("a") && !set.has_text("b"));
        assert!(set.has_bool(true) && !set.has_bool(false));
        assert!(set.has_instant(7) && !set.has_instant(2));
        assert!(ConstantSet::new(Vec::new()).is_empty());
    }
}
