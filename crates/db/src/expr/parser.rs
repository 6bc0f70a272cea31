//! Tokens to a tree, by precedence climbing. `docs/filter-language.md` has the table.
//!
//! Input is hostile: its length, the number of nodes and the depth of the tree are bounded, so
//! neither memory nor the stack can run out; and what nobody waits for any more is not read on.

use super::error::{FilterError, FilterFault, LocatedResult, Span};
use super::lexer::Lexer;
use super::operators::{Infix, power};
use super::token::{Placed, Token};
use super::tree::{Arithmetic, Comparison, Expr, Junction, Literal, OperandKind, RangeEnd};
use crate::asker;

/// The longest expression. A list of a million keys fits.
pub const MAX_EXPRESSION_BYTES: usize = 16 << 20;
/// The deepest nesting.
pub const MAX_DEPTH: usize = 128;
/// The most values and operators.
pub const MAX_TERMS: usize = (1 << 20) + (1 << 10);
/// What a token or a value costs beside its bytes, in bytes that are compared meanwhile.
pub(super) const TERM_WORK: usize = 128;

/// The tree of an expression; `None` where it is blank.
pub(super) fn parse(text: &str) -> Result<Option<Expr>, FilterError> {
    let refused = |located| FilterError::new(text, located);
    if text.len() > MAX_EXPRESSION_BYTES {
        let (bytes, limit) = (text.len(), MAX_EXPRESSION_BYTES);
        return Err(refused(FilterFault::TooLong { bytes, limit }.at(Span::default())));
    }
    let mut parser = Parser::new(text).map_err(refused)?;
    parser.whole().map_err(refused)
}

pub(super) struct Parser<'t> {
    lexer: Lexer<'t>,
    /// What is looked at.
    pub(super) ahead: Placed<'t>,
    /// Behind the last token that was taken.
    pub(super) behind: u32,
    depth: usize,
    terms: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> LocatedResult<Self> {
        let mut lexer = Lexer::new(text);
        let ahead = lexer.next()?;
        Ok(Self { lexer, ahead, behind: 0, depth: 0, terms: 0 })
    }

    fn whole(&mut self) -> LocatedResult<Option<Expr>> {
        if self.ahead.token == Token::End {
            return Ok(None);
        }
        let expr = self.expression(power::ANY)?;
        match self.ahead.token {
            Token::End => Ok(Some(expr)),
            _ => Err(self.unexpected("an operator or the end")),
        }
    }

    pub(super) fn take(&mut self) -> LocatedResult<Placed<'t>> {
        let next = self.lexer.next()?;
        let bytes = next.span.end - self.ahead.span.end;
        if !asker::worked(bytes as usize + TERM_WORK) {
            return Err(FilterFault::Unwanted.at(next.span));
        }
        self.behind = self.ahead.span.end;
        Ok(std::mem::replace(&mut self.ahead, next))
    }

    pub(super) fn take_if(&mut self, sign: &str) -> LocatedResult<bool> {
        let found = matches!(self.ahead.token, Token::Sign(found) if found == sign);
        if found {
            self.take()?;
        }
        Ok(found)
    }

    pub(super) fn need(&mut self, sign: &'static str) -> LocatedResult<()> {
        match self.take_if(sign)? {
            true => Ok(()),
            false => Err(self.unexpected(sign)),
        }
    }

    fn need_keyword(&mut self, small: &'static str) -> LocatedResult<()> {
        if !self.ahead.token.is_keyword(small) {
            return Err(self.unexpected(small));
        }
        self.take().map(drop)
    }

    pub(super) fn unexpected(&self, expected: &'static str) -> super::error::Located {
        let found = self.ahead.token.describe();
        FilterFault::Unexpected { found, expected }.at(self.ahead.span)
    }

    /// A node from `start` up to what was taken last.
    pub(super) fn node(
        &mut self,
        kind: OperandKind,
        start: u32,
        below: u16,
    ) -> LocatedResult<Expr> {
        let span = Span { start, end: self.behind };
        self.terms += 1;
        if self.terms > MAX_TERMS {
            return Err(FilterFault::TooManyTerms { limit: MAX_TERMS }.at(span));
        }
        let height = below + 1;
        if usize::from(height) > MAX_DEPTH {
            return Err(FilterFault::TooDeep { limit: MAX_DEPTH }.at(span));
        }
        Ok(Expr { kind, span, height })
    }

    /// An expression of operators that bind as tightly as `least`, or more so.
    pub(super) fn expression(&mut self, least: u8) -> LocatedResult<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(FilterFault::TooDeep { limit: MAX_DEPTH }.at(self.ahead.span));
        }
        let mut left = self.prefix()?;
        while let Some(infix) = Infix::of(&self.ahead.token).filter(|i| i.power() >= least) {
            left = self.infix(left, infix)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn prefix(&mut self) -> LocatedResult<Expr> {
        let start = self.ahead.span.start;
        match &self.ahead.token {
            Token::Sign("-") => self.minus(start),
            Token::Sign("+") => {
                self.take()?;
                let operand = self.expression(power::PREFIX)?;
                let below = operand.height;
                // The same as a difference from nothing, but that texts have no sign either.
                match operand.kind {
                    OperandKind::Literal(Literal::Integer(_) | Literal::Float(_)) => Ok(operand),
                    _ => {
                        let zero =
                            self.node(OperandKind::Literal(Literal::Integer(0)), start, 0)?;
                        let both = Box::new((zero, operand));
                        self.node(OperandKind::Arithmetic(Arithmetic::Add, both), start, below)
                    }
                }
            }
            Token::Sign("~") => {
                let what = "BitNot".to_owned();
                Err(FilterFault::Unsupported { what }.at(self.ahead.span))
            }
            token if *token == Token::Sign("!") || token.is_keyword("not") => {
                self.take()?;
                let operand = self.expression(power::PREFIX)?;
                let below = operand.height;
                self.node(OperandKind::Not(Box::new(operand)), start, below)
            }
            token if token.is_keyword("exists") => {
                self.take()?;
                let operand = self.expression(power::EXISTS)?;
                let below = operand.height;
                self.node(OperandKind::Exists(Box::new(operand)), start, below)
            }
            _ => self.primary(start),
        }
    }

    fn minus(&mut self, start: u32) -> LocatedResult<Expr> {
        self.take()?;
        if self.ahead.token == Token::Integer(1 << 63) {
            // The one integer that has no positive counterpart.
            self.take()?;
            return self.node(OperandKind::Literal(Literal::Integer(i64::MIN)), start, 0);
        }
        let operand = self.expression(power::PREFIX)?;
        let below = operand.height;
        match operand.kind {
            OperandKind::Literal(Literal::Integer(value)) if value != i64::MIN => {
                self.node(OperandKind::Literal(Literal::Integer(-value)), start, 0)
            }
            OperandKind::Literal(Literal::Float(value)) => {
                self.node(OperandKind::Literal(Literal::Float(-value)), start, 0)
            }
            _ => self.node(OperandKind::Minus(Box::new(operand)), start, below),
        }
    }

    /// The operator ahead, with what is left of it.
    fn infix(&mut self, left: Expr, infix: Infix) -> LocatedResult<Expr> {
        let start = left.span.start;
        let operator = self.take()?;
        match infix {
            Infix::Refused(what, _) => {
                Err(FilterFault::Unsupported { what: what.to_owned() }.at(operator.span))
            }
            Infix::IsNull => self.is_null(left),
            Infix::In => self.member(left),
            Infix::Between => self.between(left),
            Infix::NotMember => {
                let inner = match &self.ahead.token {
                    token if token.is_keyword("in") => {
                        self.take()?;
                        self.member(left)?
                    }
                    token if token.is_keyword("between") => {
                        self.take()?;
                        self.between(left)?
                    }
                    _ => return Err(self.unexpected("in or between")),
                };
                let below = inner.height;
                self.node(OperandKind::Not(Box::new(inner)), start, below)
            }
            Infix::Like => {
                let pattern = self.expression(power::LIKE + 1)?;
                let below = left.height.max(pattern.height);
                self.node(OperandKind::Like(Box::new((left, pattern))), start, below)
            }
            Infix::Junction(junction) => self.junction(left, junction),
            Infix::Compare(comparison) => self.compare(left, comparison),
            Infix::Arithmetic(operator) => {
                let right = self.expression(infix.power() + 1)?;
                let below = left.height.max(right.height);
                self.node(OperandKind::Arithmetic(operator, Box::new((left, right))), start, below)
            }
        }
    }

    fn is_null(&mut self, left: Expr) -> LocatedResult<Expr> {
        let start = left.span.start;
        let negated = self.ahead.token.is_keyword("not");
        if negated {
            self.take()?;
        }
        self.need_keyword("null")?;
        let below = left.height;
        let is_null = self.node(OperandKind::IsNull(Box::new(left)), start, below)?;
        let below = is_null.height;
        match negated {
            true => self.node(OperandKind::Not(Box::new(is_null)), start, below),
            false => Ok(is_null),
        }
    }

    fn member(&mut self, left: Expr) -> LocatedResult<Expr> {
        let start = left.span.start;
        let list = self.expression(power::MEMBER + 1)?;
        let below = left.height.max(list.height);
        self.node(OperandKind::In(Box::new((left, list))), start, below)
    }

    fn between(&mut self, left: Expr) -> LocatedResult<Expr> {
        let low = self.expression(power::MEMBER + 1)?;
        self.need_keyword("and")?;
        let high = self.expression(power::MEMBER + 1)?;
        let ends = [low, high].map(|value| RangeEnd { value, included: true });
        self.range(left.span.start, left, ends)
    }

    fn range(&mut self, start: u32, value: Expr, ends: [RangeEnd; 2]) -> LocatedResult<Expr> {
        let below = value.height.max(ends[0].value.height).max(ends[1].value.height);
        let [low, high] = ends;
        self.node(OperandKind::Range(Box::new((value, low, high))), start, below)
    }

    fn junction(&mut self, left: Expr, junction: Junction) -> LocatedResult<Expr> {
        let start = left.span.start;
        let least = if junction == Junction::And { power::AND } else { power::OR } + 1;
        let right = self.expression(least)?;
        let below = |expr: &Expr| match &expr.kind {
            OperandKind::Junction(found, _) if *found == junction => expr.height - 1,
            _ => expr.height,
        };
        let below = below(&left).max(below(&right));
        let mut terms = terms_of(left, junction);
        terms.append(&mut terms_of(right, junction));
        self.node(OperandKind::Junction(junction, terms), start, below)
    }

    fn compare(&mut self, left: Expr, comparison: Comparison) -> LocatedResult<Expr> {
        let start = left.span.start;
        let least = if comparison.is_order() { power::ORDER } else { power::EQUALITY } + 1;
        let right = self.expression(least)?;
        let second = match Infix::of(&self.ahead.token) {
            Some(Infix::Compare(second)) if goes_on(comparison, second) => second,
            _ => {
                let below = left.height.max(right.height);
                return self.node(
                    OperandKind::Compare(comparison, Box::new((left, right))),
                    start,
                    below,
                );
            }
        };
        let is_name = matches!(right.kind, OperandKind::Name(_));
        if !is_name {
            return Err(self.unexpected("and: between two bounds stands a field"));
        }
        self.take()?;
        let last = self.expression(power::ORDER + 1)?;
        let included = |comparison| matches!(comparison, Comparison::Le | Comparison::Ge);
        let first = RangeEnd { value: left, included: included(comparison) };
        let last = RangeEnd { value: last, included: included(second) };
        let rises = matches!(comparison, Comparison::Lt | Comparison::Le);
        self.range(start, right, if rises { [first, last] } else { [last, first] })
    }
}

/// Whether `a first b second c` is a range.
fn goes_on(first: Comparison, second: Comparison) -> bool {
    use Comparison::{Ge, Gt, Le, Lt};
    matches!((first, second), (Lt | Le, Lt | Le) | (Gt | Ge, Gt | Ge))
}

fn terms_of(expr: Expr, junction: Junction) -> Vec<Expr> {
    match expr.kind {
        OperandKind::Junction(found, terms) if found == junction => terms,
        _ => vec![expr],
    }
}
