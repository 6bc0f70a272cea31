//! Constants against the types of fields.

use super::type_name;
use crate::expr::constant::Constant;
use crate::expr::error::{FilterFault, LocatedResult, Span};
use crate::expr::number::as_integer;
use crate::expr::predicate::Target;
use crate::value::ScalarType;

/// The constant in the form in which values of this type are compared with it.
///
/// An integer or a fraction is compared with integers as what it is, also beyond the range of their
/// type; with a field of single precision it is rounded as the values of the field were, so that
/// what was stored as 0.1 is equal to 0.1.
pub(super) fn fit(target: Target, constant: Constant, span: Span) -> LocatedResult<Constant> {
    let right = constant.type_name();
    let refuse = || {
        let (left, right) = (type_name(target).to_owned(), right.to_owned());
        Err(FilterFault::Comparison { left, right }.at(span))
    };
    match (target, constant) {
        (Target::Json, Constant::Instant(_)) => refuse(),
        (Target::Json, constant) => Ok(constant),
        (Target::Array(element), Constant::List(items)) => {
            let items = items.into_iter().map(|item| fit(Target::Scalar(element), item, span));
            Ok(Constant::List(items.collect::<LocatedResult<_>>()?))
        }
        (Target::Scalar(scalar), constant) => match (scalar, constant) {
            (ScalarType::Bool, constant @ Constant::Bool(_))
            | (ScalarType::VarChar, constant @ Constant::Text(_))
            | (ScalarType::Timestamptz, constant @ Constant::Instant(_))
            | (ScalarType::Double | ScalarType::Float, constant @ Constant::Int(_))
            | (ScalarType::Double, constant @ Constant::Float(_)) => Ok(constant),
            (ScalarType::Float, Constant::Float(value)) => {
                let rounded = f64::from(value as f32);
                Ok(Constant::Float(if rounded.is_finite() { rounded } else { value }))
            }
            (scalar, constant @ Constant::Int(_)) if scalar.integer_range().is_some() => {
                Ok(constant)
            }
            (scalar, Constant::Float(value)) => match scalar.integer_range() {
                // The same number, in the form that an index on integers has.
                Some(_) => Ok(as_integer(value).map_or(Constant::Float(value), Constant::Int)),
                None => refuse(),
            },
            _ => refuse(),
        },
        (Target::Array(_), _) => refuse(),
    }
}
