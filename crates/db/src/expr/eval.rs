//! Whether a row matches: by looking at its values, one condition after the other.
//!
//! This is the reference for everything that is faster. The logic has three values: a condition
//! on a value that is not there is unknown, `not` leaves it unknown, `and` and `or` follow
//! Kleene, and a row matches if the whole is true. JSON is typed by its values: a value of another
//! type than the constant's cannot be compared with it, and that is unknown too.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Bound;

use serde_json::Value as Json;

use super::constant::{Constant, ConstantSet};
use super::json_path;
use super::number::Number;
use super::predicate::{ColumnRef, Leaf, Predicate, Quantity, Term};
use super::tree::{Arithmetic, Comparison, PathStep};
use crate::asker;
use crate::value::{ArrayRef, DataType, RowError, ValueRef};

/// What a term costs at least, in bytes compared.
const TERM_WORK: usize = 64;

/// True, false, or unknown.
pub type Ternary = Option<bool>;

/// The values of a row.
pub trait RowValues {
    /// The value of the field at this position of the schema.
    ///
    /// # Errors
    /// [`RowError`] where the row is damaged.
    fn value(&self, field: usize) -> Result<ValueRef<'_>, RowError>;
}

/// A value that was looked up.
enum Datum<'r> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'r, str>),
    Instant(i64),
    Array(ArrayRef<'r>),
    /// An array or object.
    Json(Json),
}

impl Predicate {
    /// Whether a row is so.
    ///
    /// # Errors
    /// What looking up a value says.
    pub fn evaluate(&self, row: &impl RowValues) -> Result<Ternary, RowError> {
        match self {
            Self::Const(value) => Ok(Some(*value)),
            Self::Not(inner) => Ok(inner.evaluate(row)?.map(|truth| !truth)),
            Self::And(terms) => junction(terms, row, true),
            Self::Or(terms) => junction(terms, row, false),
            Self::Leaf(leaf) => leaf.evaluate(row),
        }
    }
}

/// `and`, where true is neutral, or `or`.
fn junction(terms: &[Predicate], row: &impl RowValues, neutral: bool) -> Result<Ternary, RowError> {
    let mut all = Some(neutral);
    for term in terms {
        // What nobody waits for may be anything.
        if !asker::worked(TERM_WORK) {
            return Ok(None);
        }
        match term.evaluate(row)? {
            Some(truth) if truth == neutral => {}
            Some(truth) => return Ok(Some(truth)),
            None => all = None,
        }
    }
    Ok(all)
}

impl Leaf {
    fn evaluate(&self, row: &impl RowValues) -> Result<Ternary, RowError> {
        Ok(match self {
            Self::Compare(column, comparison, constant) => {
                compare_constant(&look_up(column, row)?, *comparison, constant)
            }
            Self::Range(column, low, high) => {
                let datum = look_up(column, row)?;
                let above = end(&datum, low, [Comparison::Ge, Comparison::Gt]);
                let below = end(&datum, high, [Comparison::Le, Comparison::Lt]);
                above.zip(below).map(|(above, below)| above && below)
            }
            Self::In(column, set) => is_in(&look_up(column, row)?, set),
            Self::Like(column, pattern) => match look_up(column, row)? {
                Datum::Text(text) => {
                    asker::worked(text.len());
                    Some(pattern.matches(&text))
                }
                _ => None,
            },
            Self::IsNull(column) => Some(matches!(look_up(column, row)?, Datum::Null)),
            Self::Contains(column, quantity, values) => {
                contains(&look_up(column, row)?, *quantity, values)
            }
            Self::Computed(left, comparison, right) => {
                let (left, right) = (term(left, row)?, term(right, row)?);
                compare(&left, *comparison, &right)
            }
        })
    }
}

fn end(datum: &Datum<'_>, bound: &Bound<Constant>, [closed, open]: [Comparison; 2]) -> Ternary {
    match bound {
        Bound::Unbounded if matches!(datum, Datum::Null) => None,
        Bound::Unbounded => Some(true),
        Bound::Included(constant) => compare_constant(datum, closed, constant),
        Bound::Excluded(constant) => compare_constant(datum, open, constant),
    }
}

fn look_up<'r>(column: &ColumnRef, row: &'r impl RowValues) -> Result<Datum<'r>, RowError> {
    let value = row.value(column.field)?;
    Ok(match value {
        ValueRef::Json(text) => {
            asker::worked(text.len());
            let damaged = |_| RowError::Value { column: column.field, data_type: DataType::Json };
            json_path::find(text, &column.path).map_err(damaged)?.map_or(Datum::Null, json_datum)
        }
        ValueRef::Array(array) => match column.path.first() {
            None => Datum::Array(array),
            Some(PathStep::Index(at)) => {
                let at = usize::try_from(*at).unwrap_or(usize::MAX);
                if at < array.len() { of_value(array.get(at)) } else { Datum::Null }
            }
            Some(PathStep::Key(_)) => Datum::Null,
        },
        value => of_value(value),
    })
}

fn of_value(value: ValueRef<'_>) -> Datum<'_> {
    match value {
        ValueRef::Bool(value) => Datum::Bool(value),
        ValueRef::Int8(value) => Datum::Number(Number::Int(value.into())),
        ValueRef::Int16(value) => Datum::Number(Number::Int(value.into())),
        ValueRef::Int32(value) => Datum::Number(Number::Int(value.into())),
        ValueRef::Int64(value) => Datum::Number(Number::Int(value.into())),
        ValueRef::Float(value) => Datum::Number(Number::Float(value.into())),
        ValueRef::Double(value) => Datum::Number(Number::Float(value)),
        ValueRef::Timestamptz(value) => Datum::Instant(value),
        ValueRef::VarChar(value) => Datum::Text(Cow::Borrowed(value)),
        ValueRef::Array(array) => Datum::Array(array),
        // Binding refuses vectors, and JSON has a path.
        ValueRef::Null | ValueRef::Json(_) | ValueRef::Vector(_) => Datum::Null,
    }
}

fn json_datum(value: Json) -> Datum<'static> {
    match value {
        Json::Null => Datum::Null,
        Json::Bool(value) => Datum::Bool(value),
        Json::Number(number) => Datum::Number(json_number(&number)),
        Json::String(text) => Datum::Text(Cow::Owned(text)),
        other => Datum::Json(other),
    }
}

fn json_number(number: &serde_json::Number) -> Number {
    let signed = number.as_i64().map(i128::from);
    let integer = signed.or_else(|| number.as_u64().map(i128::from));
    match integer {
        Some(integer) => Number::Int(integer),
        None => Number::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// Lists that are different are in no order.
fn ordered(order: Option<Ordering>, comparison: Comparison) -> bool {
    match comparison {
        Comparison::Eq => order == Some(Ordering::Equal),
        Comparison::Ne => order != Some(Ordering::Equal),
        Comparison::Lt => order == Some(Ordering::Less),
        Comparison::Le => order.is_some_and(Ordering::is_le),
        Comparison::Gt => order == Some(Ordering::Greater),
        Comparison::Ge => order.is_some_and(Ordering::is_ge),
    }
}

fn compare_constant(datum: &Datum<'_>, comparison: Comparison, constant: &Constant) -> Ternary {
    let order = match (datum, constant) {
        (Datum::Bool(a), Constant::Bool(b)) => Some(a.cmp(b)),
        (Datum::Text(a), Constant::Text(b)) => Some(a.as_ref().cmp(b)),
        (Datum::Instant(a), Constant::Instant(b)) => Some(a.cmp(b)),
        (Datum::Number(a), b) => a.compare(b.number()?),
        (Datum::Array(a), Constant::List(b)) => {
            let same = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is(&of_value(a), b));
            same.then_some(Ordering::Equal)
        }
        (Datum::Json(a @ Json::Array(_)), b @ Constant::List(_)) => {
            json_is(a, b).then_some(Ordering::Equal)
        }
        _ => return None,
    };
    Some(ordered(order, comparison))
}

fn is(datum: &Datum<'_>, constant: &Constant) -> bool {
    compare_constant(datum, Comparison::Eq, constant) == Some(true)
}

fn json_is(value: &Json, constant: &Constant) -> bool {
    match (value, constant) {
        (Json::Bool(a), Constant::Bool(b)) => a == b,
        (Json::String(a), Constant::Text(b)) => a == b,
        (Json::Number(a), b) => {
            b.number().and_then(|b| json_number(a).compare(b)) == Some(Ordering::Equal)
        }
        (Json::Array(a), Constant::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| json_is(a, b))
        }
        _ => false,
    }
}

fn compare(left: &Datum<'_>, comparison: Comparison, right: &Datum<'_>) -> Ternary {
    let order = match (left, right) {
        (Datum::Bool(a), Datum::Bool(b)) => Some(a.cmp(b)),
        (Datum::Number(a), Datum::Number(b)) => a.compare(*b),
        (Datum::Text(a), Datum::Text(b)) => Some(a.cmp(b)),
        (Datum::Instant(a), Datum::Instant(b)) => Some(a.cmp(b)),
        _ => return None,
    };
    Some(ordered(order, comparison))
}

/// As if it were compared with one value of the set after the other, with `or` between them.
fn is_in(datum: &Datum<'_>, set: &ConstantSet) -> Ternary {
    let comparable = match datum {
        Datum::Null => return None,
        Datum::Bool(_) => set.bools(),
        Datum::Number(_) => set.numbers(),
        Datum::Text(_) => set.texts(),
        Datum::Instant(_) => set.instants(),
        Datum::Array(_) | Datum::Json(Json::Array(_)) => set.lists(),
        Datum::Json(_) => 0,
    };
    match place_of(datum, set) {
        Some(_) => Some(true),
        None => (comparable == set.len()).then_some(false),
    }
}

/// Where a value stands in a set.
fn place_of(datum: &Datum<'_>, set: &ConstantSet) -> Option<usize> {
    match datum {
        Datum::Null => None,
        Datum::Bool(value) => set.place_of_bool(*value),
        Datum::Number(value) => set.place_of_number(*value),
        Datum::Text(value) => set.place_of_text(value),
        Datum::Instant(value) => set.place_of_instant(*value),
        Datum::Array(_) => set.place_of_list(|list| is(datum, list)),
        Datum::Json(value) => set.place_of_list(|list| json_is(value, list)),
    }
}

fn json_place_of(value: &Json, set: &ConstantSet) -> Option<usize> {
    match value {
        Json::Null => None,
        Json::Bool(value) => set.place_of_bool(*value),
        Json::Number(number) => set.place_of_number(json_number(number)),
        Json::String(text) => set.place_of_text(text),
        other => set.place_of_list(|list| json_is(other, list)),
    }
}

fn contains(datum: &Datum<'_>, quantity: Quantity, set: &ConstantSet) -> Ternary {
    match datum {
        Datum::Array(array) => {
            let places = array.iter().filter_map(|item| place_of(&of_value(item), set));
            Some(are_enough(places, array.len(), quantity, set.len()))
        }
        Datum::Json(Json::Array(items)) => {
            let places = items.iter().filter_map(|item| json_place_of(item, set));
            Some(are_enough(places, items.len(), quantity, set.len()))
        }
        _ => None,
    }
}

/// Whether elements of an array, which stand at these places of a set, are all of it, or any.
fn are_enough(
    mut places: impl Iterator<Item = usize>,
    elements: usize,
    quantity: Quantity,
    wanted: usize,
) -> bool {
    match quantity {
        Quantity::Any => places.next().is_some(),
        Quantity::All if elements < wanted => false,
        Quantity::All => {
            let mut seen = vec![false; wanted];
            let new = places.filter(|at| !std::mem::replace(&mut seen[*at], true));
            new.count() == wanted
        }
    }
}

fn term<'r>(of: &'r Term, row: &'r impl RowValues) -> Result<Datum<'r>, RowError> {
    Ok(match of {
        Term::Column(column) => look_up(column, row)?,
        Term::Constant(constant) => constant_datum(constant),
        Term::Length(column) => {
            let length = match look_up(column, row)? {
                Datum::Array(array) => array.len(),
                Datum::Json(Json::Array(items)) => items.len(),
                _ => return Ok(Datum::Null),
            };
            Datum::Number(Number::Int(length as i128))
        }
        Term::Calculated(operator, both) => match (term(&both.0, row)?, term(&both.1, row)?) {
            (Datum::Number(a), Datum::Number(b)) => {
                calculate(*operator, a, b).map_or(Datum::Null, Datum::Number)
            }
            _ => Datum::Null,
        },
        Term::Moved(instant, by) => match term(instant, row)? {
            Datum::Instant(us) => by.after(us).map_or(Datum::Null, Datum::Instant),
            _ => Datum::Null,
        },
    })
}

fn constant_datum(constant: &Constant) -> Datum<'_> {
    match constant {
        Constant::Bool(value) => Datum::Bool(*value),
        Constant::Int(value) => Datum::Number(Number::Int((*value).into())),
        Constant::Float(value) => Datum::Number(Number::Float(*value)),
        Constant::Text(text) => Datum::Text(Cow::Borrowed(text)),
        Constant::Instant(us) => Datum::Instant(*us),
        // Binding compares lists with columns only.
        Constant::List(_) => Datum::Null,
    }
}

/// `None` where there is no result: a division by zero, a remainder of a fraction, a difference of
/// infinities, an integer beyond 128 bits, which is more than any two fields make. Integers are
/// divided towards zero, and the remainder has the sign of the dividend.
pub(super) fn calculate(operator: Arithmetic, a: Number, b: Number) -> Option<Number> {
    let is_zero = b.compare(Number::Int(0)) == Some(Ordering::Equal);
    if is_zero && matches!(operator, Arithmetic::Div | Arithmetic::Mod) {
        return None;
    }
    if let (Number::Int(a), Number::Int(b)) = (a, b) {
        return match operator {
            Arithmetic::Add => a.checked_add(b),
            Arithmetic::Sub => a.checked_sub(b),
            Arithmetic::Mul => a.checked_mul(b),
            Arithmetic::Div => a.checked_div(b),
            Arithmetic::Mod => a.checked_rem(b),
            Arithmetic::Pow => None,
        }
        .map(Number::Int);
    }
    let (a, b) = (float(a), float(b));
    let result = match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Sub => a - b,
        Arithmetic::Mul => a * b,
        Arithmetic::Div => a / b,
        Arithmetic::Mod | Arithmetic::Pow => return None,
    };
    (!result.is_nan()).then_some(Number::Float(result))
}

pub(super) fn float(number: Number) -> f64 {
    match number {
        Number::Int(value) => value as f64,
        Number::Float(value) => value,
    }
}

/// Two constants against each other.
pub(super) fn compare_constants(left: &Constant, comparison: Comparison, right: &Constant) -> bool {
    match (left, right) {
        (Constant::List(a), Constant::List(b)) => {
            let pairs = || a.iter().zip(b).all(|(a, b)| compare_constants(a, Comparison::Eq, b));
            let same = a.len() == b.len() && pairs();
            ordered(same.then_some(Ordering::Equal), comparison)
        }
        _ => compare(&constant_datum(left), comparison, &constant_datum(right)) == Some(true),
    }
}
