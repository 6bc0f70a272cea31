//! Comparisons, ranges, `in` and `like`.

use std::ops::Bound as Limit;

use super::fit::fit;
use super::{Binder, Bound, LIST, type_name};
use crate::expr::constant::{Constant, ConstantSet};
use crate::expr::error::{FilterFault, LocatedResult, Span};
use crate::expr::eval::compare_constants;
use crate::expr::like::{LikePattern, MAX_WILD_CHARS};
use crate::expr::predicate::{Leaf, Predicate, Target, Term};
use crate::expr::tree::{Comparison, Expr, OperandKind, RangeEnd};
use crate::value::ScalarType;

/// Most lists in a list.
const MAX_LISTS: usize = 1024;

impl Binder<'_> {
    pub(super) fn compare(
        &self,
        comparison: Comparison,
        left: &Expr,
        right: &Expr,
    ) -> LocatedResult<Predicate> {
        let span = left.span.to(right.span);
        compare_bound(comparison, self.bound(left)?, self.bound(right)?, span)
    }

    pub(super) fn range(
        &self,
        value: &Expr,
        low: &RangeEnd,
        high: &RangeEnd,
    ) -> LocatedResult<Predicate> {
        let end = |end: &RangeEnd, [closed, open]: [Comparison; 2]| {
            let comparison = if end.included { closed } else { open };
            self.compare(comparison, value, &end.value)
        };
        let low = end(low, [Comparison::Ge, Comparison::Gt])?;
        let high = end(high, [Comparison::Le, Comparison::Lt])?;
        match (low, high) {
            // A constant between two fields is two comparisons, which look the same.
            (
                Predicate::Leaf(Leaf::Compare(
                    column,
                    above @ (Comparison::Ge | Comparison::Gt),
                    low,
                )),
                Predicate::Leaf(Leaf::Compare(
                    other,
                    below @ (Comparison::Le | Comparison::Lt),
                    high,
                )),
            ) if column == other
                && (low.type_name() == high.type_name()
                    || (low.number().is_some() && high.number().is_some())) =>
            {
                let limit = |comparison, constant| match comparison {
                    Comparison::Ge | Comparison::Le => Limit::Included(constant),
                    _ => Limit::Excluded(constant),
                };
                Ok(Predicate::Leaf(Leaf::Range(column, limit(above, low), limit(below, high))))
            }
            (low, high) => Ok(Predicate::all(vec![low, high])),
        }
    }

    pub(super) fn member(&self, value: &Expr, list: &Expr) -> LocatedResult<Predicate> {
        const WANTED: &str = "a list on the right-hand side";
        match self.bound(value)? {
            Bound::Term(Term::Column(column), target) => {
                let items = self.items("in", WANTED, list)?;
                let items = items.into_iter().map(|(item, span)| fit(target, item, span));
                let set = ConstantSet::new(items.collect::<LocatedResult<_>>()?);
                Ok(Predicate::Leaf(Leaf::In(column, set)))
            }
            Bound::Constant(constant) => {
                let items = self.items("in", WANTED, list)?;
                let found = items
                    .iter()
                    .any(|(item, _)| compare_constants(&constant, Comparison::Eq, item));
                Ok(Predicate::Const(found))
            }
            other => {
                let (operation, found) = ("in".to_owned(), other.describe());
                let wanted = "fields and JSON paths";
                Err(FilterFault::Operand { operation, wanted, found }.at(value.span))
            }
        }
    }

    /// The constants of a list, with their places; messages call it what is `wanted`. Lists among
    /// them are bounded in number: they are gone through one by one.
    pub(super) fn items(
        &self,
        operation: &str,
        wanted: &'static str,
        list: &Expr,
    ) -> LocatedResult<Vec<(Constant, Span)>> {
        let items = self.all_items(operation, wanted, list)?;
        let mut lists = items.iter().filter(|(item, _)| matches!(item, Constant::List(_)));
        match lists.nth(MAX_LISTS) {
            Some((_, span)) => Err(FilterFault::TooManyLists { limit: MAX_LISTS }.at(*span)),
            None => Ok(items),
        }
    }

    fn all_items(
        &self,
        operation: &str,
        wanted: &'static str,
        list: &Expr,
    ) -> LocatedResult<Vec<(Constant, Span)>> {
        if let OperandKind::List(items) = &list.kind {
            return items.iter().map(|item| Ok((self.constant(LIST, item)?, item.span))).collect();
        }
        match self.bound(list)? {
            Bound::Constant(Constant::List(items)) => {
                Ok(items.into_iter().map(|item| (item, list.span)).collect())
            }
            other => {
                let (operation, found) = (operation.to_owned(), other.describe());
                Err(FilterFault::Operand { operation, wanted, found }.at(list.span))
            }
        }
    }

    pub(super) fn like(&self, value: &Expr, pattern: &Expr) -> LocatedResult<Predicate> {
        let text = self.text("like", "a text on the right-hand side", pattern)?;
        let too_long = || FilterFault::Pattern { limit: MAX_WILD_CHARS }.at(pattern.span);
        let pattern = LikePattern::new(&text).ok_or_else(too_long)?;
        if let Bound::Constant(Constant::Text(text)) = self.bound(value)? {
            return Ok(Predicate::Const(pattern.matches(&text)));
        }
        let column = self.column_of(value, "like", "VarChar and JSON fields", is_text)?;
        Ok(Predicate::Leaf(Leaf::Like(column, pattern)))
    }

    /// A text that depends on no row. Messages call it what is `wanted`.
    pub(super) fn text(
        &self,
        operation: &str,
        wanted: &'static str,
        expr: &Expr,
    ) -> LocatedResult<String> {
        match self.bound(expr)? {
            Bound::Constant(Constant::Text(text)) => Ok(text),
            other => {
                let (operation, found) = (operation.to_owned(), other.describe());
                Err(FilterFault::Operand { operation, wanted, found }.at(expr.span))
            }
        }
    }
}

pub(super) fn is_text(target: Target) -> bool {
    matches!(target, Target::Scalar(ScalarType::VarChar) | Target::Json)
}

fn compare_bound(
    comparison: Comparison,
    left: Bound,
    right: Bound,
    span: Span,
) -> LocatedResult<Predicate> {
    let names = (left.describe(), right.describe());
    match (left, right) {
        (Bound::Constant(a), Bound::Constant(b)) if are_alike(&a, &b) => {
            check_order(comparison, &a, span)?;
            Ok(Predicate::Const(compare_constants(&a, comparison, &b)))
        }
        (Bound::Term(term, target), Bound::Constant(constant)) => {
            with_constant(term, target, comparison, constant, span)
        }
        (Bound::Constant(constant), Bound::Term(term, target)) => {
            with_constant(term, target, comparison.swapped(), constant, span)
        }
        (Bound::Term(a, a_type), Bound::Term(b, b_type)) if are_comparable(a_type, b_type) => {
            if comparison.is_order() && a_type == Target::Scalar(ScalarType::Bool) {
                return Err(no_order(comparison, "Bool").at(span));
            }
            Ok(Predicate::Leaf(Leaf::Computed(a, comparison, b)))
        }
        _ => Err(FilterFault::Comparison { left: names.0, right: names.1 }.at(span)),
    }
}

fn with_constant(
    term: Term,
    target: Target,
    comparison: Comparison,
    constant: Constant,
    span: Span,
) -> LocatedResult<Predicate> {
    let constant = fit(target, constant, span)?;
    check_order(comparison, &constant, span)?;
    Ok(Predicate::Leaf(match term {
        Term::Column(column) => Leaf::Compare(column, comparison, constant),
        _ if matches!(constant, Constant::List(_)) => {
            let (left, right) = (type_name(target).to_owned(), "Array".to_owned());
            return Err(FilterFault::Comparison { left, right }.at(span));
        }
        other => Leaf::Computed(other, comparison, Term::Constant(constant)),
    }))
}

fn are_alike(a: &Constant, b: &Constant) -> bool {
    a.type_name() == b.type_name() || (a.number().is_some() && b.number().is_some())
}

/// Two values of a row can be compared where both are numbers, or both the same.
fn are_comparable(a: Target, b: Target) -> bool {
    match (a, b) {
        (Target::Scalar(a), Target::Scalar(b)) => {
            let is_number = super::calculate::is_number;
            a == b || (is_number(a) && is_number(b))
        }
        _ => false,
    }
}

fn check_order(comparison: Comparison, constant: &Constant, span: Span) -> LocatedResult<()> {
    match constant {
        Constant::Bool(_) | Constant::List(_) if comparison.is_order() => {
            Err(no_order(comparison, constant.type_name()).at(span))
        }
        _ => Ok(()),
    }
}

fn no_order(comparison: Comparison, found: &str) -> FilterFault {
    let operation = comparison.sign().to_owned();
    let wanted = "numbers, texts and instants";
    FilterFault::Operand { operation, wanted, found: found.to_owned() }
}
