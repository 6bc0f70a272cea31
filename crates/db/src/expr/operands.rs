//! Reading what stands between operators: values, fields with their paths, calls, lists, templates,
//! and what is in brackets.

use super::error::{FilterFault, LocatedResult, Span};
use super::operators::power;
use super::parser::{MAX_DEPTH, Parser};
use super::token::{Token, is_keyword};
use super::tree::{Expr, Literal, Name, OperandKind, PathStep};

impl<'t> Parser<'t> {
    pub(super) fn primary(&mut self, start: u32) -> LocatedResult<Expr> {
        const EXPECTED: &str = "a field, a value or (";
        let literal = match &mut self.ahead.token {
            Token::Sign("(") => {
                self.take()?;
                let mut inner = self.expression(power::ANY)?;
                self.need(")")?;
                inner.span = Span { start, end: self.behind };
                return Ok(inner);
            }
            Token::Sign("[") => return self.list(start),
            Token::Sign("{") => return self.template(start),
            Token::Word(word) => {
                let word = *word;
                return self.word(word, start);
            }
            Token::Integer(value) => match i64::try_from(*value) {
                Ok(value) => Literal::Integer(value),
                Err(_) => {
                    let why = "the integer does not fit 64 bits";
                    return Err(FilterFault::Number { why }.at(self.ahead.span));
                }
            },
            Token::Float(value) => Literal::Float(*value),
            Token::Text(text) => Literal::Text(std::mem::take(text).into_boxed_str()),
            Token::Sign(_) | Token::End => return Err(self.unexpected(EXPECTED)),
        };
        self.take()?;
        self.node(OperandKind::Literal(literal), start, 0)
    }

    fn word(&mut self, word: &'t str, start: u32) -> LocatedResult<Expr> {
        const RESERVED: &[&str] = &["and", "or", "not", "in", "like", "is", "null", "exists"];
        for (value, spellings) in
            [(true, ["true", "True", "TRUE"]), (false, ["false", "False", "FALSE"])]
        {
            if spellings.contains(&word) {
                self.take()?;
                return self.node(OperandKind::Literal(Literal::Bool(value)), start, 0);
            }
        }
        if RESERVED.iter().any(|small| is_keyword(word, small)) {
            return Err(self.unexpected("a field, a value or ("));
        }
        self.take()?;
        let is_instant = is_keyword(word, "iso");
        match &mut self.ahead.token {
            Token::Text(text) if is_instant || is_keyword(word, "interval") => {
                let text = std::mem::take(text).into_boxed_str();
                self.take()?;
                let literal =
                    if is_instant { Literal::Instant(text) } else { Literal::Interval(text) };
                self.node(OperandKind::Literal(literal), start, 0)
            }
            Token::Sign("(") => {
                self.take()?;
                let (arguments, below) = self.sequence(")")?;
                let name = word.to_ascii_lowercase();
                let name = if is_keyword(word, &name) { name } else { word.to_owned() };
                self.node(OperandKind::Call(name.into_boxed_str(), arguments), start, below)
            }
            _ => {
                let name = word.to_owned();
                let path = self.path()?;
                self.node(OperandKind::Name(Box::new(Name { name, path })), start, 0)
            }
        }
    }

    fn path(&mut self) -> LocatedResult<Vec<PathStep>> {
        const EXPECTED: &str = "a key in quotes or a position from 0";
        let mut path = Vec::new();
        while self.take_if("[")? {
            let step = match &mut self.ahead.token {
                Token::Text(key) => PathStep::Key(std::mem::take(key)),
                Token::Integer(at) => match u32::try_from(*at) {
                    Ok(at) => PathStep::Index(at),
                    Err(_) => return Err(self.unexpected(EXPECTED)),
                },
                _ => return Err(self.unexpected(EXPECTED)),
            };
            path.push(step);
            if path.len() > MAX_DEPTH {
                return Err(FilterFault::TooDeep { limit: MAX_DEPTH }.at(self.ahead.span));
            }
            self.take()?;
            self.need("]")?;
        }
        Ok(path)
    }

    fn list(&mut self, start: u32) -> LocatedResult<Expr> {
        self.take()?;
        let (items, below) = self.sequence("]")?;
        self.node(OperandKind::List(items), start, below)
    }

    /// Expressions with commas between them, also behind the last, up to `end`; and the greatest
    /// of their heights.
    fn sequence(&mut self, end: &'static str) -> LocatedResult<(Vec<Expr>, u16)> {
        let (mut items, mut below) = (Vec::new(), 0);
        while !self.take_if(end)? {
            let item = self.expression(power::ANY)?;
            below = below.max(item.height);
            items.push(item);
            if !self.take_if(",")? {
                self.need(end)?;
                break;
            }
        }
        Ok((items, below))
    }

    fn template(&mut self, start: u32) -> LocatedResult<Expr> {
        self.take()?;
        let Token::Word(name) = self.ahead.token else {
            return Err(self.unexpected("the name of a template"));
        };
        self.take()?;
        self.need("}")?;
        self.node(OperandKind::Template(name.into()), start, 0)
    }
}
