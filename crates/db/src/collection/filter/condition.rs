//! Conditions of a filter in the form in which scalar indexes are asked for them.
//!
//! A condition that an index answers only roughly is asked for as a wider one. What no index has,
//! which is JSON, dynamic keys, elements by position, and fields that are calculated with or
//! compared with each other, has no such form.

use std::ops::Bound;

use crate::collection::formats::Formats;
use crate::expr::{
    ColumnRef, Comparison, Constant, ConstantSet, Leaf, LikePattern, Quantity, Target,
};
use crate::scalar::{Condition, KeyPredicate, ScalarColumn};
use crate::value::{ScalarType, Value};

/// A condition as an index is asked for it.
pub(in crate::collection) struct IndexedCondition {
    /// Matches every row of which the condition is true, or false where it is `negated`.
    pub(in crate::collection) predicate: KeyPredicate,
    /// Matches the rows of which the condition is unknown, and others if it is `null` itself.
    pub(in crate::collection) null: KeyPredicate,
    /// Whether the predicate stands for the opposite.
    pub(in crate::collection) negated: bool,
    /// Whether the predicate matches no other rows.
    pub(in crate::collection) whole: bool,
}

/// What is asked, whether it stands for the opposite, and whether it asks for nothing more.
type AskedCondition = (Condition, bool, bool);

impl IndexedCondition {
    /// The condition of a leaf; `None` where no index can be asked.
    pub(in crate::collection) fn of(leaf: &Leaf, formats: &Formats) -> Option<Self> {
        let column = column_of(leaf)?;
        if !column.path.is_empty() {
            return None;
        }
        let field = formats.schema.fields().get(column.field)?.id;
        let indexed = formats.scalars.iter().find(|indexed| indexed.field == field)?;
        let (condition, negated, whole) = asked(leaf, column.target)?;
        let predicate = |condition| KeyPredicate::new(indexed, condition);
        let null = null(indexed)?;
        Some(Self { predicate: predicate(&condition)?, null, negated, whole })
    }
}

fn null(indexed: &ScalarColumn) -> Option<KeyPredicate> {
    KeyPredicate::new(indexed, &Condition::IsNull)
}

/// The column that a condition is about.
pub(in crate::collection) fn column_of(leaf: &Leaf) -> Option<&ColumnRef> {
    match leaf {
        Leaf::Compare(column, ..)
        | Leaf::Range(column, ..)
        | Leaf::In(column, _)
        | Leaf::Like(column, _)
        | Leaf::IsNull(column)
        | Leaf::Contains(column, ..) => Some(column),
        Leaf::Computed(..) => None,
    }
}

fn asked(leaf: &Leaf, target: Target) -> Option<AskedCondition> {
    let exactly = |condition| Some((condition, false, true));
    match (leaf, target) {
        (Leaf::IsNull(_), Target::Scalar(_) | Target::Array(_)) => exactly(Condition::IsNull),
        (Leaf::Compare(_, comparison, constant), Target::Scalar(of)) => {
            compared(*comparison, constant, of)
        }
        (Leaf::Range(_, low, high), Target::Scalar(of)) => exactly(Condition::Within(
            bound(low, of, BoundEnd::Low)?,
            bound(high, of, BoundEnd::High)?,
        )),
        (Leaf::In(_, set), Target::Scalar(of)) => exactly(one_of(set, of)),
        (Leaf::Like(_, pattern), Target::Scalar(ScalarType::VarChar)) => like(pattern),
        (Leaf::Contains(_, quantity, set), Target::Array(of)) => {
            exactly(contains(*quantity, set, of))
        }
        _ => None,
    }
}

fn compared(comparison: Comparison, constant: &Constant, of: ScalarType) -> Option<AskedCondition> {
    let within = |low, high| Some((Condition::Within(low, high), false, true));
    let low = |limit: Bound<Constant>| bound(&limit, of, BoundEnd::Low);
    let high = |limit: Bound<Constant>| bound(&limit, of, BoundEnd::High);
    match comparison {
        Comparison::Eq | Comparison::Ne => {
            let values = value_of(constant, of).into_iter().collect();
            Some((Condition::OneOf(values), comparison == Comparison::Ne, true))
        }
        Comparison::Lt => within(Bound::Unbounded, high(Bound::Excluded(constant.clone()))?),
        Comparison::Le => within(Bound::Unbounded, high(Bound::Included(constant.clone()))?),
        Comparison::Gt => within(low(Bound::Excluded(constant.clone()))?, Bound::Unbounded),
        Comparison::Ge => within(low(Bound::Included(constant.clone()))?, Bound::Unbounded),
    }
}

fn like(pattern: &LikePattern) -> Option<AskedCondition> {
    if let Some(text) = pattern.exact() {
        return Some((Condition::Equal(Value::VarChar(text.to_owned())), false, true));
    }
    let prefix = pattern.prefix();
    let is_all = pattern.is_prefix();
    (is_all || !prefix.is_empty()).then_some((Condition::StartsWith(prefix), false, is_all))
}

fn one_of(set: &ConstantSet, of: ScalarType) -> Condition {
    Condition::OneOf(set.iter().filter_map(|constant| value_of(&constant, of)).collect())
}

fn contains(quantity: Quantity, set: &ConstantSet, of: ScalarType) -> Condition {
    let values: Vec<Value> = set.iter().filter_map(|constant| value_of(&constant, of)).collect();
    match quantity {
        Quantity::Any => Condition::ContainsAny(values),
        // No array has what the type cannot hold.
        Quantity::All if values.len() < set.len() => Condition::ContainsAny(Vec::new()),
        Quantity::All => Condition::ContainsAll(values),
    }
}

/// The value of the type that is equal to a constant that binding let pass; `None` where no value
/// of the type is.
fn value_of(constant: &Constant, of: ScalarType) -> Option<Value> {
    let is_float = matches!(of, ScalarType::Float | ScalarType::Double);
    Some(match constant {
        Constant::Bool(value) => Value::Bool(*value),
        Constant::Text(text) => Value::VarChar(text.clone()),
        Constant::Instant(us) => Value::Timestamptz(*us),
        Constant::Int(value) if is_float => {
            let float = *value as f64;
            return (float as i128 == i128::from(*value)).then_some(Value::Double(float));
        }
        Constant::Int(value) => Value::Int64(*value),
        Constant::Float(value) if is_float => Value::Double(*value),
        Constant::Float(_) | Constant::List(_) => return None,
    })
}

#[derive(Clone, Copy, PartialEq)]
enum BoundEnd {
    Low,
    High,
}

/// The end of a range among values of a type; `None` where it cannot be told by one of them.
fn bound(limit: &Bound<Constant>, of: ScalarType, end: BoundEnd) -> Option<Bound<Value>> {
    let (Bound::Included(constant) | Bound::Excluded(constant)) = limit else {
        return Some(Bound::Unbounded);
    };
    match (value_of(constant, of), constant) {
        (Some(value), _) if matches!(limit, Bound::Included(_)) => Some(Bound::Included(value)),
        (Some(value), _) => Some(Bound::Excluded(value)),
        // Integers, since fractions have a value of their own type.
        (None, Constant::Float(fraction)) => Some(beside(*fraction, end)),
        (None, _) => None,
    }
}

/// The end of a range of integers that a fraction is, or a number that 64 bits do not hold.
fn beside(fraction: f64, end: BoundEnd) -> Bound<Value> {
    /// 2^63
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let whole = if end == BoundEnd::Low { fraction.ceil() } else { fraction.floor() };
    match end {
        _ if (-BEYOND..BEYOND).contains(&whole) => Bound::Included(Value::Int64(whole as i64)),
        BoundEnd::Low if whole < 0.0 => Bound::Unbounded,
        BoundEnd::High if whole > 0.0 => Bound::Unbounded,
        // No integer is there.
        BoundEnd::Low => Bound::Excluded(Value::Int64(i64::MAX)),
        BoundEnd::High => Bound::Excluded(Value::Int64(i64::MIN)),
    }
}
