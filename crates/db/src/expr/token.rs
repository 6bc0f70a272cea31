//! The words of the language.

use super::error::Span;

/// A word, number, text or sign.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    /// An integer without a sign.
    Integer(u64),
    Float(f64),
    /// Unquoted and unescaped.
    Text(String),
    /// A keyword or a name.
    Word(&'t str),
    Sign(&'static str),
    End,
}

impl Token<'_> {
    /// What it is, for a message.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Integer(value) => format!("integer {value}"),
            Self::Float(value) => format!("number {value}"),
            Self::Text(_) => "text".to_owned(),
            Self::Word(word) => format!("`{}`", word.chars().take(80).collect::<String>()),
            Self::Sign(sign) => format!("`{sign}`"),
            Self::End => "end of the expression".to_owned(),
        }
    }

    /// Whether it is this keyword: all small or all capital letters.
    pub(super) fn is_keyword(&self, small: &str) -> bool {
        matches!(self, Self::Word(word) if is_keyword(word, small))
    }
}

/// Whether a word is this keyword, which is written in small or in capital letters.
pub(super) fn is_keyword(word: &str, small: &str) -> bool {
    word == small
        || (word.len() == small.len()
            && word.bytes().zip(small.bytes()).all(|(w, s)| w == s.to_ascii_uppercase()))
}

/// A token and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed<'t> {
    pub(super) token: Token<'t>,
    pub(super) span: Span,
}

/// All signs, each before those that it begins with.
pub(super) const SIGNS: &[&str] = &[
    "**", "<<", ">>", "==", "!=", "<>", "<=", ">=", "&&", "||", "=~", "!~", "(", ")", "[", "]",
    "{", "}", ",", "=", "<", ">", "+", "-", "*", "/", "%", "!", "~", "&", "|", "^",
];
