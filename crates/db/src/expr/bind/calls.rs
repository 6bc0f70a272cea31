//! Functions.

use super::compare::is_text;
use super::fit::fit;
use super::{Binder, Bound};
use crate::expr::constant::{Constant, ConstantSet};
use crate::expr::error::{FilterFault, LocatedResult, Span};
use crate::expr::like::LikePattern;
use crate::expr::predicate::{ColumnRef, Leaf, Predicate, Quantity, Target, Term};
use crate::expr::tree::{Comparison, Expr, OperandKind};
use crate::value::ScalarType;

const SAMPLE: &str = "random_sample";

/// Functions of the language that are not offered: full text, elements of structs, geometry,
/// probabilistic sets.
const ELSEWHERE: &[&str] = &[
    "text_match",
    "phrase_match",
    "element_filter",
    "match_all",
    "match_any",
    "match_least",
    "match_most",
    "match_exact",
    "bloom_match",
    "roaring_match",
];

impl Binder<'_> {
    pub(super) fn call(&self, name: &str, arguments: &[Expr], span: Span) -> LocatedResult<Bound> {
        let leaf = match name {
            "json_contains" | "array_contains" => {
                let [column, value] = self.two(name, arguments, span)?;
                let (column, element) = self.container(name, column)?;
                let values =
                    self.elements(element, vec![(self.constant(name, value)?, value.span)])?;
                Leaf::Contains(column, Quantity::All, values)
            }
            "json_contains_all" | "array_contains_all" | "json_contains_any"
            | "array_contains_any" => {
                let [column, values] = self.two(name, arguments, span)?;
                let (column, element) = self.container(name, column)?;
                let all = name.ends_with("_all");
                let quantity = if all { Quantity::All } else { Quantity::Any };
                let values = self.items(name, "a list as its second argument", values)?;
                let values = self.elements(element, values)?;
                Leaf::Contains(column, quantity, values)
            }
            "starts_with" => {
                let [column, prefix] = self.two(name, arguments, span)?;
                let column = self.column_of(column, name, "VarChar and JSON fields", is_text)?;
                let prefix = self.text(name, "a text as its second argument", prefix)?;
                Leaf::Like(column, LikePattern::starting_with(&prefix))
            }
            "empty" => {
                let column = self.one(name, arguments, span)?;
                let column = self.column_of(column, name, "VarChar and JSON fields", is_text)?;
                Leaf::Compare(column, Comparison::Eq, Constant::Text(String::new()))
            }
            "array_length" => {
                let (column, _) = self.container(name, self.one(name, arguments, span)?)?;
                let target = Target::Scalar(ScalarType::Int64);
                return Ok(Bound::Term(Term::Length(column), target));
            }
            SAMPLE => {
                let why = "it has to be the last term of the whole expression, behind and";
                return Err(FilterFault::Sample { why }.at(span));
            }
            _ if ELSEWHERE.contains(&name) || name.starts_with("st_") => {
                return Err(FilterFault::Unsupported { what: name.to_owned() }.at(span));
            }
            _ => return Err(FilterFault::UnknownFunction { name: name.to_owned() }.at(span)),
        };
        Ok(Bound::Predicate(Predicate::Leaf(leaf)))
    }

    /// The part of rows that a term asks for, where it is a sample.
    pub(super) fn sample(&self, expr: &Expr) -> LocatedResult<Option<f64>> {
        let arguments = match &expr.kind {
            OperandKind::Call(name, arguments) if **name == *SAMPLE => arguments,
            _ => return Ok(None),
        };
        let part = self.constant(SAMPLE, self.one(SAMPLE, arguments, expr.span)?)?;
        match part {
            Constant::Float(part) if part > 0.0 && part < 1.0 => Ok(Some(part)),
            _ => {
                let why = "the sample factor should be between 0 and 1 and not too close to 0 or 1";
                Err(FilterFault::Sample { why }.at(expr.span))
            }
        }
    }

    /// The column of an array, and the type of its elements.
    fn container(&self, function: &str, expr: &Expr) -> LocatedResult<(ColumnRef, Target)> {
        let takes = |target| matches!(target, Target::Json | Target::Array(_));
        let column = self.column_of(expr, function, "array and JSON fields", takes)?;
        let element = match column.target {
            Target::Array(element) => Target::Scalar(element),
            other => other,
        };
        Ok((column, element))
    }

    fn elements(
        &self,
        element: Target,
        values: Vec<(Constant, Span)>,
    ) -> LocatedResult<ConstantSet> {
        let values = values.into_iter().map(|(value, span)| fit(element, value, span));
        Ok(ConstantSet::new(values.collect::<LocatedResult<_>>()?))
    }

    fn one<'e>(
        &self,
        function: &str,
        arguments: &'e [Expr],
        span: Span,
    ) -> LocatedResult<&'e Expr> {
        match arguments {
            [one] => Ok(one),
            _ => Err(count(function, "one argument", arguments).at(span)),
        }
    }

    fn two<'e>(
        &self,
        function: &str,
        arguments: &'e [Expr],
        span: Span,
    ) -> LocatedResult<[&'e Expr; 2]> {
        match arguments {
            [first, second] => Ok([first, second]),
            _ => Err(count(function, "two arguments", arguments).at(span)),
        }
    }
}

fn count(function: &str, wanted: &'static str, arguments: &[Expr]) -> FilterFault {
    FilterFault::Arguments { function: function.to_owned(), wanted, found: arguments.len() }
}
