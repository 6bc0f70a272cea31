//! Filters: the language in which rows are described, from its text to whether a row matches.
//!
//! [`compile`] reads an expression, binds it to a schema with the values of its templates, and
//! gives a [`BoundFilter`]: a tree of conditions on fields, which the evaluator here walks row by
//! row and a planner can take apart. `docs/filter-language.md` describes the language, and
//! `docs/decisions/0014-filter-semantics.md` says why it is so.
//!
//! Expressions come from outside: length, nesting and number of terms are bounded, and every
//! error points at the characters that it is about. Deliberately absent: rows on disk, indexes,
//! and chance (a sample is a number here).

mod bind;
mod constant;
mod error;
mod eval;
mod instant;
mod json_path;
mod lexer;
mod like;
mod number;
mod numerals;
mod operands;
mod operators;
mod parser;
mod predicate;
mod print;
mod strings;
mod token;
mod tree;

#[cfg(test)]
mod tests;

pub use constant::{Constant, ConstantSet, Templates};
pub use error::{FilterError, FilterFault, Span};
pub use eval::{RowValues, Ternary};
pub use instant::{Interval, parse_instant};
pub use like::{LikePattern, MAX_WILD_CHARS};
pub use number::Number;
pub use parser::{MAX_DEPTH, MAX_EXPRESSION_BYTES, MAX_TERMS};
pub use predicate::{BoundFilter, ColumnRef, Leaf, Predicate, Quantity, Target, Term};
pub use tree::{Arithmetic, Comparison, PathStep};

use crate::schema::Schema;

/// Reads an expression and binds it. A blank one selects every row.
///
/// # Errors
/// [`FilterError`], with the place.
pub fn compile(
    expression: &str,
    schema: &Schema,
    templates: &Templates,
) -> Result<BoundFilter, FilterError> {
    let tree = parser::parse(expression)?;
    bind::bind(tree.as_ref(), schema, templates)
        .map_err(|located| FilterError::new(expression, located))
}

/// The expression with a bracket around every operator, which is read as the same expression
/// where that does not nest it too deep; nothing for a blank one. Shows how an expression is
/// understood.
///
/// # Errors
/// [`FilterError`] where it cannot be read.
pub fn explicit(expression: &str) -> Result<String, FilterError> {
    Ok(parser::parse(expression)?.map_or_else(String::new, |tree| tree.to_string()))
}
