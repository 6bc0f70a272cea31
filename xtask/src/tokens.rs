//! Rust source to the few tokens that paths are made of.
//!
//! Comments, strings, characters and lifetimes are dropped, and so is every number. This is no
//! parser: it knows just enough of Rust's lexical rules not to take text for code.

/// A token and the line it stands on, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceToken {
    pub(crate) kind: TokenKind,
    pub(crate) line: usize,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An identifier or keyword, without a raw prefix.
    Word(String),
    /// `::`
    PathSeparator,
    /// Any other character of punctuation.
    Punct(char),
}

impl SourceToken {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(&self.kind, TokenKind::Word(w) if w == word)
    }

    pub(crate) fn is_punct(&self, c: char) -> bool {
        self.kind == TokenKind::Punct(c)
    }
}

/// Splits `source` into tokens.
pub(crate) fn tokens(source: &str) -> Vec<SourceToken> {
    let chars: Vec<char> = source.chars().collect();
    SourceLexer { chars, at: 0, line: 1, out: Vec::new() }.run()
}

struct SourceLexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    out: Vec<SourceToken>,
}

impl SourceLexer {
    fn run(mut self) -> Vec<SourceToken> {
        while let Some(c) = self.peek(0) {
            let next = self.peek(1);
            match c {
                '/' if next == Some('/') => self.skip_while(|c| c != '\n'),
                '/' if next == Some('*') => self.block_comment(),
                '"' => self.string(),
                '\'' => self.character_or_lifetime(),
                ':' if next == Some(':') => {
                    self.push(TokenKind::PathSeparator);
                    self.skip(2);
                }
                c if c.is_ascii_digit() => self.skip_while(|c| c.is_alphanumeric() || c == '_'),
                c if c.is_alphabetic() || c == '_' => self.word(),
                c if c.is_whitespace() => self.skip(1),
                c => {
                    self.push(TokenKind::Punct(c));
                    self.skip(1);
                }
            }
        }
        self.out
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn push(&mut self, kind: TokenKind) {
        self.out.push(SourceToken { kind, line: self.line });
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            if self.peek(0) == Some('\n') {
                self.line += 1;
            }
            self.at += 1;
        }
    }

    fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&keep) {
            self.skip(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => {
                    depth += 1;
                    self.skip(2);
                }
                ('*', Some('/')) => {
                    depth -= 1;
                    self.skip(2);
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.skip(1),
            }
        }
    }

    fn string(&mut self) {
        self.skip(1);
        while let Some(c) = self.peek(0) {
            match c {
                '\\' => self.skip(2),
                '"' => return self.skip(1),
                _ => self.skip(1),
            }
        }
    }

    /// Skips `r#"…"#` from its first `#` or quote, where `hashes` stand before the quote.
    fn raw_string(&mut self, hashes: usize) {
        self.skip(hashes + 1);
        while let Some(c) = self.peek(0) {
            self.skip(1);
            if c == '"' && (0..hashes).all(|i| self.peek(i) == Some('#')) {
                return self.skip(hashes);
            }
        }
    }

    fn character_or_lifetime(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (Some('\\'), _) => {
                self.skip(3);
                self.skip_while(|c| c != '\'');
                self.skip(1);
            }
            (Some(_), Some('\'')) => self.skip(3),
            _ => {
                self.skip(1);
                self.skip_while(|c| c.is_alphanumeric() || c == '_');
            }
        }
    }

    fn word(&mut self) {
        let start = self.at;
        self.skip_while(|c| c.is_alphanumeric() || c == '_');
        let word: String = self.chars[start..self.at].iter().collect();
        let hashes = self.chars[self.at..].iter().take_while(|&&c| c == '#').count();
        let quoted = self.peek(hashes) == Some('"');
        match word.as_str() {
            "r" | "br" | "cr" if quoted => self.raw_string(hashes),
            "b" | "c" if hashes == 0 && quoted => self.string(),
            "b" if self.peek(0) == Some('\'') => self.character_or_lifetime(),
            "r" if hashes == 1 => self.skip(1),
            _ => self.push(TokenKind::Word(word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TokenKind, tokens};

    fn words(source: &str) -> Vec<String> {
        let word = |k| if let TokenKind::Word(w) = k { Some(w) } else { None };
        tokens(source).into_iter().filter_map(|t| word(t.kind)).collect()
    }

    #[test]
    fn text_is_not_code() {
        let source = r###"
            // crate::a
            /* crate::b /* nested */ crate::c */
            let s = "crate::d \" crate::e";
            let r = r#"crate::f " crate::g"#;
            let b = (b"crate::h", br"crate::i", b'x', '"', '\'', '\u{1F600}');
            fn f<'crate_life>(x: &'crate_life str) {}
            end
        "###;
        assert_eq!(
            words(source),
            ["let", "s", "let", "r", "let", "b", "fn", "f", "x", "str", "end"]
        );
    }

    #[test]
    fn lines_are_counted_through_text() {
        let found = tokens("\"a\nb\"\n/*\n*/ x");
        assert_eq!((found.len(), found[0].line), (1, 4));
    }

    #[test]
    fn raw_identifiers_and_numbers_are_read() {
        assert_eq!(words("r#type 1_000u64 0xcafe 1.5e3 y"), ["type", "y"]);
    }
}
