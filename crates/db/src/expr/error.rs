//! What is wrong with a filter, and where.
//!
//! Clients look for some of these texts, so they stay as they are: `cannot parse expression`,
//! `field x not exist`, `not op can only be applied on boolean expression`.

use std::fmt;

use crate::ids::ErrorClass;

/// A part of an expression: bytes from the first on, up to the one before the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub start: u32,
    /// The byte behind its last.
    pub end: u32,
}

impl Span {
    /// From the start of this one to the end of another.
    pub(super) fn to(self, end: Self) -> Self {
        Self { start: self.start, end: end.end }
    }
}

/// Why an expression is no filter of the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterFault {
    /// More text than is read.
    #[error("the expression has {bytes} bytes, at most {limit} are read")]
    TooLong {
        /// Bytes given.
        bytes: usize,
        /// Most that are read.
        limit: usize,
    },
    /// Brackets or operators inside each other.
    #[error("the expression is nested deeper than {limit} levels")]
    TooDeep {
        /// Deepest nesting.
        limit: usize,
    },
    /// More values and operators than are taken.
    #[error("the expression has more than {limit} values and operators")]
    TooManyTerms {
        /// The most.
        limit: usize,
    },
    /// Templates that put in more than an expression may have, each counted as often as it is named.
    #[error(
        "the templates put in more than {values} values or {bytes} bytes of text, each counted as often as it is named"
    )]
    TooMuchPutIn {
        /// Most values.
        values: usize,
        /// Most bytes of text.
        bytes: usize,
    },
    /// More lists in a list than are taken.
    #[error("a list may have {limit} lists in it")]
    TooManyLists {
        /// The most.
        limit: usize,
    },
    /// Nobody waits for what it selects any more, so it was not read to its end.
    #[error("nobody waits for the rows of the expression any more")]
    Unwanted,
    /// A character that begins nothing.
    #[error("unexpected character {found:?}")]
    Character {
        /// The character.
        found: char,
    },
    /// A text without its closing quote.
    #[error("the text has no closing {quote}")]
    Unterminated {
        /// The quote that is missing.
        quote: char,
    },
    /// An escape that is none.
    #[error("bad escape: {why}")]
    Escape {
        /// What is wrong with it.
        why: &'static str,
    },
    /// Digits that are no number.
    #[error("bad number: {why}")]
    Number {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A regular sequence was expected.
    #[error("unexpected {found}, expected {expected}")]
    Unexpected {
        /// What stands there.
        found: String,
        /// What could stand there.
        expected: &'static str,
    },
    /// No field of this name, and no dynamic field.
    #[error("field {name} not exist")]
    UnknownField {
        /// The name.
        name: String,
    },
    /// No function of this name.
    #[error("function {name} not found")]
    UnknownFunction {
        /// The name.
        name: String,
    },
    /// Part of the language, and not offered here.
    #[error("{what} is not supported")]
    Unsupported {
        /// What it is.
        what: String,
    },
    /// A value where a condition is needed.
    #[error("predicate is not a boolean expression: {found}")]
    NotBoolean {
        /// What stands there.
        found: String,
    },
    /// A negation of something that is no condition.
    #[error(
        "not op can only be applied on boolean expression, not on {found}; comparisons bind less tightly: write not (...)"
    )]
    Not {
        /// What stands there.
        found: String,
    },
    /// Types that cannot be compared.
    #[error("comparisons between {left} and {right} are not supported")]
    Comparison {
        /// Type on the left.
        left: String,
        /// Type on the right.
        right: String,
    },
    /// Types that cannot be calculated with.
    #[error("{operator} can only be applied on numbers, not on {found}")]
    Arithmetic {
        /// The operator.
        operator: &'static str,
        /// Type found.
        found: String,
    },
    /// A remainder of what is no integer.
    #[error("modulo can only apply on integer types, not on {found}")]
    Modulo {
        /// Type found.
        found: String,
    },
    /// An operator or function on something else than it takes.
    #[error("{operation} is only supported on {wanted}, not on {found}")]
    Operand {
        /// Operator or function.
        operation: String,
        /// What it takes.
        wanted: &'static str,
        /// What stands there.
        found: String,
    },
    /// A number of arguments that a function does not take.
    #[error("{function} takes {wanted}, found {found}")]
    Arguments {
        /// The function.
        function: String,
        /// What it takes.
        wanted: &'static str,
        /// Arguments found.
        found: usize,
    },
    /// Constants whose result does not fit 64 bits.
    #[error("integer overflow")]
    Overflow,
    /// A division of, or by, a constant that is zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A template without a value.
    #[error("the value of expression template variable name {{{name}}} is not found")]
    Template {
        /// Its name.
        name: String,
    },
    /// A template's value that is no value of the language.
    #[error("the value of expression template variable name {{{name}}} cannot be used: {why}")]
    TemplateValue {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An instant or interval that is none.
    #[error("bad {what}: {why}")]
    Time {
        /// Instant or interval.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A sample of nothing, of all, or in the midst of an expression.
    #[error("random_sample: {why}")]
    Sample {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A pattern that would take too long.
    #[error("a like pattern may have {limit} characters between two %, where _ is among them")]
    Pattern {
        /// The most.
        limit: usize,
    },
}

/// A fault with its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located {
    pub(super) span: Span,
    pub(super) fault: Box<FilterFault>,
}

pub(super) type LocatedResult<T> = Result<T, Located>;

impl FilterFault {
    /// The fault at a place. Of long words of the expression it keeps as much as is shown.
    pub(super) fn at(mut self, span: Span) -> Located {
        if let Self::UnknownField { name: text }
        | Self::UnknownFunction { name: text }
        | Self::Unsupported { what: text }
        | Self::Template { name: text }
        | Self::TemplateValue { name: text, .. }
        | Self::Time { why: text, .. } = &mut self
        {
            shorten(text);
        }
        Located { span, fault: Box::new(self) }
    }
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(2 * SHOWN_CHARS) {
        text.truncate(end);
        text.push('…');
    }
}

/// The most that an error shows of an expression before and behind the place.
const SHOWN_CHARS: usize = 80;

/// What is wrong with a filter. Displayed with the line in question and a mark below the place.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterError {
    fault: Box<FilterFault>,
    span: Span,
    /// Line and column from 1, in characters.
    place: (usize, usize),
    /// The expression, or its start.
    expression: String,
    /// The line in question or a part of it, and where the mark stands below it.
    line: (String, usize),
}

impl std::error::Error for FilterError {}

impl FilterError {
    pub(super) fn new(text: &str, located: Located) -> Self {
        let Located { span, fault } = located;
        let at = text.floor_char_boundary(span.start as usize);
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let behind = text[at..].lines().next().unwrap_or("");
        let column = text[line_start..at].chars().count();
        let skipped = column.saturating_sub(SHOWN_CHARS);
        let shown = text[line_start..at].chars().skip(skipped);
        let shown = shown.chain(behind.chars().take(SHOWN_CHARS));
        // A tab would put the mark elsewhere.
        let line = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mut expression: String = text.chars().take(2 * SHOWN_CHARS).collect();
        if expression.len() < text.len() {
            expression.push('…');
        }
        let place = (before.matches('\n').count() + 1, column + 1);
        Self { fault, span, place, expression, line: (line, column - skipped) }
    }

    /// What is wrong.
    pub fn fault(&self) -> &FilterFault {
        &self.fault
    }

    /// The part of the expression that is meant, in bytes.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Line and column of its first character, from 1.
    pub fn place(&self) -> (usize, usize) {
        self.place
    }

    /// The input is to be mended.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::FixInput
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, place, expression, line, .. } = self;
        write!(
            f,
            "cannot parse expression: {expression}, error: {fault} at line {}, column {}\n  {}\n  {:>mark$}",
            place.0,
            place.1,
            line.0,
            '^',
            mark = line.1 + 1
        )
    }
}
