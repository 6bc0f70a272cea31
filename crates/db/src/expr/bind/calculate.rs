//! Arithmetic: constants are folded, the rest becomes a [`Term`].

use super::{Binder, Bound};
use crate::expr::constant::Constant;
use crate::expr::error::{FilterFault, LocatedResult, Span};
use crate::expr::eval;
use crate::expr::instant::Interval;
use crate::expr::number::Number;
use crate::expr::predicate::{Target, Term};
use crate::expr::tree::{Arithmetic, Expr};
use crate::value::ScalarType;

/// An operand, and where it stands.
type OperandSide = (Bound, Span);

const INSTANT: Target = Target::Scalar(ScalarType::Timestamptz);

impl Binder<'_> {
    pub(super) fn minus(&self, operand: &Expr, span: Span) -> LocatedResult<Bound> {
        let zero = (Bound::Constant(Constant::Int(0)), operand.span);
        let operand = (self.bound(operand)?, operand.span);
        calculate(Arithmetic::Sub, zero, operand, span)
    }

    pub(super) fn arithmetic(
        &self,
        operator: Arithmetic,
        left: &Expr,
        right: &Expr,
    ) -> LocatedResult<Bound> {
        let span = left.span.to(right.span);
        let left = (self.bound(left)?, left.span);
        let right = (self.bound(right)?, right.span);
        calculate(operator, left, right, span)
    }
}

pub(super) fn is_number(scalar: ScalarType) -> bool {
    scalar.integer_range().is_some() || is_fraction(scalar)
}

fn is_fraction(scalar: ScalarType) -> bool {
    matches!(scalar, ScalarType::Float | ScalarType::Double)
}

fn calculate(
    operator: Arithmetic,
    left: OperandSide,
    right: OperandSide,
    span: Span,
) -> LocatedResult<Bound> {
    match (operator, &left.0, &right.0) {
        (Arithmetic::Add, _, Bound::Interval(by)) => return moved(operator, *by, left),
        (Arithmetic::Sub, _, Bound::Interval(by)) => return moved(operator, by.negated(), left),
        (Arithmetic::Add, Bound::Interval(by), _) => return moved(operator, *by, right),
        _ => {}
    }
    let target = result_type(operator, &left, &right)?;
    let is_zero = |bound: &Bound| match bound {
        Bound::Constant(constant) => constant.number().is_some_and(|n| eval::float(n) == 0.0),
        _ => false,
    };
    if matches!(operator, Arithmetic::Div | Arithmetic::Mod) && is_zero(&right.0) {
        return Err(FilterFault::DivisionByZero.at(right.1));
    }
    match (left.0, right.0) {
        (Bound::Constant(a), Bound::Constant(b)) => {
            fold(operator, a.number().zip(b.number()), span).map(Bound::Constant)
        }
        _ if operator == Arithmetic::Pow => {
            let what = "** on anything but constants".to_owned();
            Err(FilterFault::Unsupported { what }.at(span))
        }
        (left, right) => {
            let both = Box::new((term(left), term(right)));
            Ok(Bound::Term(Term::Calculated(operator, both), target))
        }
    }
}

fn term(number: Bound) -> Term {
    match number {
        Bound::Constant(constant) => Term::Constant(constant),
        Bound::Term(term, _) => term,
        Bound::Interval(_) | Bound::Predicate(_) => unreachable!("these have no type of a number"),
    }
}

fn result_type(
    operator: Arithmetic,
    left: &OperandSide,
    right: &OperandSide,
) -> LocatedResult<Target> {
    let types = [number_type(operator, left)?, number_type(operator, right)?];
    let fraction = Target::Scalar(ScalarType::Double);
    if operator == Arithmetic::Mod {
        for (side, found) in [left, right].into_iter().zip(types) {
            if found == fraction {
                return Err(FilterFault::Modulo { found: "Double".to_owned() }.at(side.1));
            }
        }
    }
    Ok(match types {
        types if types.contains(&Target::Json) => Target::Json,
        types if types.contains(&fraction) => fraction,
        _ => Target::Scalar(ScalarType::Int64),
    })
}

/// Integer, fraction or JSON.
fn number_type(operator: Arithmetic, (bound, span): &OperandSide) -> LocatedResult<Target> {
    match bound {
        Bound::Constant(Constant::Int(_)) => Ok(Target::Scalar(ScalarType::Int64)),
        Bound::Constant(Constant::Float(_)) => Ok(Target::Scalar(ScalarType::Double)),
        Bound::Term(_, Target::Json) => Ok(Target::Json),
        Bound::Term(_, Target::Scalar(scalar)) if is_number(*scalar) => {
            let wide = if is_fraction(*scalar) { ScalarType::Double } else { ScalarType::Int64 };
            Ok(Target::Scalar(wide))
        }
        other => {
            let (operator, found) = (operator.sign(), other.describe());
            Err(FilterFault::Arithmetic { operator, found }.at(*span))
        }
    }
}

fn moved(operator: Arithmetic, by: Interval, (bound, span): OperandSide) -> LocatedResult<Bound> {
    match bound {
        Bound::Constant(Constant::Instant(us)) => {
            let beyond = || {
                let why = "the result is beyond the years from -9999 to 9999".to_owned();
                FilterFault::Time { what: "instant", why }.at(span)
            };
            by.after(us).map(|us| Bound::Constant(Constant::Instant(us))).ok_or_else(beyond)
        }
        Bound::Term(term, INSTANT) => Ok(Bound::Term(Term::Moved(Box::new(term), by), INSTANT)),
        other => {
            let operation = format!("{} INTERVAL", operator.sign());
            let (wanted, found) = ("instants", other.describe());
            Err(FilterFault::Operand { operation, wanted, found }.at(span))
        }
    }
}

fn fold(
    operator: Arithmetic,
    both: Option<(Number, Number)>,
    span: Span,
) -> LocatedResult<Constant> {
    const NO_DOUBLE: &str = "the result is no number, or does not fit a double";
    let (a, b) = both.expect("both were found to be numbers");
    let result = match (operator, a, b) {
        (Arithmetic::Pow, Number::Int(a), Number::Int(b)) if b >= 0 => {
            let power = u32::try_from(b).ok().and_then(|b| a.checked_pow(b));
            // 0, 1 and -1 have powers beyond any exponent.
            let power = power.or(match a {
                0 | 1 => Some(a),
                -1 => Some(if b % 2 == 0 { 1 } else { -1 }),
                _ => None,
            });
            power.map(Number::Int)
        }
        (Arithmetic::Pow, a, b) => Some(Number::Float(eval::float(a).powf(eval::float(b)))),
        (operator, a, b) => eval::calculate(operator, a, b),
    };
    match result {
        Some(Number::Int(value)) => {
            let fits = i64::try_from(value).map(Constant::Int);
            fits.map_err(|_| FilterFault::Overflow.at(span))
        }
        Some(Number::Float(value)) if value.is_finite() => Ok(Constant::Float(value)),
        Some(Number::Float(_)) => Err(FilterFault::Number { why: NO_DOUBLE }.at(span)),
        None if matches!((a, b), (Number::Int(_), Number::Int(_))) => {
            Err(FilterFault::Overflow.at(span))
        }
        None => Err(FilterFault::Number { why: NO_DOUBLE }.at(span)),
    }
}
