//! A filter that is bound to a schema: what the evaluator walks, and a planner.
//!
//! Conditions on one field against constants are [`Leaf`]s in a form of their own, so that an
//! index can be asked for them; what compares fields, or calculates, is [`Leaf::Computed`].
//! Negation stays where it was written: over unknown values, and over values of another type in
//! JSON, `not (a < 1)` is not `a >= 1`.

use std::cmp::Ordering;
use std::ops::Bound;

use super::constant::{Constant, ConstantSet};
use super::instant::Interval;
use super::like::LikePattern;
use super::tree::{Arithmetic, Comparison, PathStep};
use crate::value::ScalarType;

/// What is found where a column leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A scalar of this type.
    Scalar(ScalarType),
    /// An array of scalars of this type.
    Array(ScalarType),
    /// Any JSON value.
    Json,
}

/// A field, or what a path leads to in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnRef {
    /// Position of the field in the schema.
    pub field: usize,
    /// Steps into it; none for the field itself. A dynamic key is a step into the dynamic field.
    pub path: Vec<PathStep>,
    /// What is found there.
    pub target: Target,
}

/// A value that depends on the row.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// What a row has in a column.
    Column(ColumnRef),
    /// The same in all rows.
    Constant(Constant),
    /// The number of elements of an array.
    Length(ColumnRef),
    /// A calculation; no `**`, which is for constants.
    Calculated(Arithmetic, Box<(Term, Term)>),
    /// An instant moved by an interval.
    Moved(Box<Term>, Interval),
}

/// How many of the values an array has to contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Every one.
    All,
    /// At least one.
    Any,
}

/// A condition on a row without `and`, `or`, `not`.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf {
    /// A column against a constant.
    Compare(ColumnRef, Comparison, Constant),
    /// A column between two constants of the same kind.
    Range(ColumnRef, Bound<Constant>, Bound<Constant>),
    /// A column among constants.
    In(ColumnRef, ConstantSet),
    /// The text of a column against a pattern.
    Like(ColumnRef, LikePattern),
    /// Whether a column has no value.
    IsNull(ColumnRef),
    /// Whether the array in a column contains values.
    Contains(ColumnRef, Quantity, ConstantSet),
    /// Anything else that compares.
    Computed(Term, Comparison, Term),
}

/// A condition on a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// The same for every row.
    Const(bool),
    /// All of these, at least two.
    And(Vec<Predicate>),
    /// One of these, at least two.
    Or(Vec<Predicate>),
    /// Not this.
    Not(Box<Predicate>),
    /// Without anything below.
    Leaf(Leaf),
}

impl Predicate {
    /// All of these, simplified.
    pub(super) fn all(terms: Vec<Self>) -> Self {
        Self::junction(terms, true)
    }

    /// One of these, simplified.
    pub(super) fn any(terms: Vec<Self>) -> Self {
        Self::junction(terms, false)
    }

    /// `neutral` changes nothing, its opposite decides; in three-valued logic as in two-valued.
    fn junction(terms: Vec<Self>, neutral: bool) -> Self {
        let mut kept = Vec::with_capacity(terms.len());
        for term in terms {
            match (term, neutral) {
                (Self::Const(value), _) if value == neutral => {}
                (Self::Const(value), _) => return Self::Const(value),
                (Self::And(below), true) | (Self::Or(below), false) => kept.extend(below),
                (other, _) => kept.push(other),
            }
        }
        match (kept.len(), neutral) {
            (0, _) => Self::Const(neutral),
            (1, _) => kept.remove(0),
            (_, true) => Self::And(kept),
            (_, false) => Self::Or(kept),
        }
    }

    /// Not this, simplified.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Const(value) => Self::Const(!value),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// A list of values such that a row can only match if it has one of them in this field; none
    /// where there is no such list.
    pub fn values_of(&self, field: usize) -> Option<Vec<Constant>> {
        let is_field = |column: &ColumnRef| column.field == field && column.path.is_empty();
        match self {
            Self::Const(false) => Some(Vec::new()),
            Self::Leaf(Leaf::Compare(column, Comparison::Eq, value)) if is_field(column) => {
                Some(vec![value.clone()])
            }
            Self::Leaf(Leaf::In(column, set)) if is_field(column) => Some(set.iter().collect()),
            Self::And(terms) => {
                let lists = terms.iter().filter_map(|term| term.values_of(field));
                lists.min_by_key(Vec::len)
            }
            Self::Or(terms) => {
                let lists: Option<Vec<_>> =
                    terms.iter().map(|term| term.values_of(field)).collect();
                lists.map(|lists| lists.concat())
            }
            Self::Const(true) | Self::Not(_) | Self::Leaf(_) => None,
        }
    }

    /// Below which value of this field no row matches, as far as comparisons with integers or texts
    /// that all have to hold tell.
    pub fn lower_bound_of(&self, field: usize) -> Bound<&Constant> {
        let is_field = |column: &ColumnRef| column.field == field && column.path.is_empty();
        match self {
            Self::Leaf(Leaf::Compare(column, Comparison::Ge, least)) if is_field(column) => {
                Bound::Included(least)
            }
            Self::Leaf(Leaf::Compare(column, Comparison::Gt, below)) if is_field(column) => {
                Bound::Excluded(below)
            }
            Self::Leaf(Leaf::Range(column, low, _)) if is_field(column) => low.as_ref(),
            Self::And(terms) => {
                let bounds = terms.iter().map(|term| term.lower_bound_of(field));
                bounds.fold(Bound::Unbounded, higher)
            }
            _ => Bound::Unbounded,
        }
    }
}

/// The one of two lower bounds above which less lies; of two that do not compare the first.
fn higher<'c>(a: Bound<&'c Constant>, b: Bound<&'c Constant>) -> Bound<&'c Constant> {
    let (Bound::Included(of_a) | Bound::Excluded(of_a)) = a else { return b };
    let (Bound::Included(of_b) | Bound::Excluded(of_b)) = b else { return a };
    let order = match (of_a, of_b) {
        (Constant::Int(a), Constant::Int(b)) => a.cmp(b),
        (Constant::Text(a), Constant::Text(b)) => a.cmp(b),
        _ => Ordering::Equal,
    };
    match order {
        Ordering::Less => b,
        Ordering::Equal if matches!(b, Bound::Excluded(_)) => b,
        _ => a,
    }
}

/// A filter bound to one version of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundFilter {
    /// What a row has to be like.
    pub predicate: Predicate,
    /// How large a part of the rows that are so is wanted, chosen at random.
    pub sample: Option<f64>,
    /// The version of the schema.
    pub schema_version: u32,
    /// Bytes that the values of templates take in it, each as often as it is named.
    pub template_bytes: usize,
}
