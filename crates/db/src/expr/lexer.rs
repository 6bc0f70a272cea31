//! Text to tokens, one at a time.

use super::error::{FilterFault, LocatedResult, Span};
use super::numerals::numeral;
use super::strings::{Quoting, unquote};
use super::token::{Placed, SIGNS, Token};

/// Reads tokens from the front. Positions fit 32 bits, since texts are bounded.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token; the end as often as it is asked for.
    pub(super) fn next(&mut self) -> LocatedResult<Placed<'t>> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        let start = self.at;
        let token = self.token()?;
        Ok(Placed { token, span: self.since(start) })
    }

    fn token(&mut self) -> LocatedResult<Token<'t>> {
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        let digit_behind = rest[first.len_utf8()..].starts_with(|c: char| c.is_ascii_digit());
        if first.is_ascii_digit() || (first == '.' && digit_behind) {
            return self.number(rest);
        }
        if first == '"' || first == '\'' {
            return self.quoted(0, Quoting::Escaped);
        }
        if first.is_ascii_alphabetic() || first == '_' || first == '$' {
            return self.word(rest);
        }
        let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
        let Some(sign) = sign else {
            let end = self.at + first.len_utf8();
            let span = span(self.at, end);
            return Err(FilterFault::Character { found: first }.at(span));
        };
        self.at += sign.len();
        Ok(Token::Sign(sign))
    }

    fn word(&mut self, rest: &'t str) -> LocatedResult<Token<'t>> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let behind = rest[1..].find(|c| !is_part(c)).map_or(rest.len(), |end| end + 1);
        let word = &rest[..behind];
        if rest[behind..].starts_with(['"', '\'']) {
            match word {
                "u8" | "u" | "U" | "L" => return self.quoted(behind, Quoting::Escaped),
                "r" | "R" => return self.quoted(behind, Quoting::Raw),
                _ => {}
            }
        }
        self.at += behind;
        Ok(Token::Word(word))
    }

    fn number(&mut self, rest: &'t str) -> LocatedResult<Token<'t>> {
        let (token, bytes) = numeral(rest);
        let start = self.at;
        self.at += bytes;
        token.map_err(|why| FilterFault::Number { why }.at(self.since(start)))
    }

    /// A text whose opening quote stands `prefix` bytes ahead.
    fn quoted(&mut self, prefix: usize, quoting: Quoting) -> LocatedResult<Token<'t>> {
        let start = self.at + prefix;
        match unquote(&self.text[start..], quoting) {
            Ok((text, bytes)) => {
                self.at = start + bytes;
                Ok(Token::Text(text))
            }
            Err((fault, at)) => {
                let from = start + at;
                let end = self.text.ceil_char_boundary((from + 1).min(self.text.len()));
                Err(fault.at(span(from, end)))
            }
        }
    }

    fn since(&self, start: usize) -> Span {
        span(start, self.at)
    }
}

fn span(start: usize, end: usize) -> Span {
    let fits = |at| u32::try_from(at).expect("expressions are bounded");
    Span { start: fits(start), end: fits(end) }
}
