//! Operators between and behind their operands, and how tightly each binds.

use super::token::{Token, is_keyword};
use super::tree::{Arithmetic, Comparison, Junction};

/// How tightly an operator binds; larger is tighter.
pub(super) mod power {
    pub(in crate::expr) const ANY: u8 = 0;
    pub(in crate::expr) const OR: u8 = 1;
    pub(in crate::expr) const AND: u8 = 2;
    pub(in crate::expr) const BIT_OR: u8 = 3;
    pub(in crate::expr) const BIT_XOR: u8 = 4;
    pub(in crate::expr) const BIT_AND: u8 = 5;
    pub(in crate::expr) const EQUALITY: u8 = 6;
    pub(in crate::expr) const ORDER: u8 = 7;
    pub(in crate::expr) const MEMBER: u8 = 9;
    pub(in crate::expr) const SHIFT: u8 = 10;
    pub(in crate::expr) const SUM: u8 = 11;
    pub(in crate::expr) const PRODUCT: u8 = 12;
    pub(in crate::expr) const PREFIX: u8 = 13;
    pub(in crate::expr) const POWER: u8 = 14;
    pub(in crate::expr) const LIKE: u8 = 15;
    pub(in crate::expr) const EXISTS: u8 = 16;
    pub(in crate::expr) const IS_NULL: u8 = 17;
}

/// An operator between or behind its operands.
#[derive(Clone, Copy)]
pub(super) enum Infix {
    Junction(Junction),
    Compare(Comparison),
    Arithmetic(Arithmetic),
    In,
    /// `not in` or `not between`.
    NotMember,
    Between,
    Like,
    IsNull,
    /// Read, and refused by this name.
    Refused(&'static str, u8),
}

impl Infix {
    pub(super) fn of(token: &Token<'_>) -> Option<Self> {
        use Infix::{Arithmetic as A, Compare, Junction as J, Refused};
        Some(match token {
            Token::Sign("||") => J(Junction::Or),
            Token::Sign("&&") => J(Junction::And),
            Token::Sign("==" | "=") => Compare(Comparison::Eq),
            Token::Sign("!=" | "<>") => Compare(Comparison::Ne),
            Token::Sign("<") => Compare(Comparison::Lt),
            Token::Sign("<=") => Compare(Comparison::Le),
            Token::Sign(">") => Compare(Comparison::Gt),
            Token::Sign(">=") => Compare(Comparison::Ge),
            Token::Sign("+") => A(Arithmetic::Add),
            Token::Sign("-") => A(Arithmetic::Sub),
            Token::Sign("*") => A(Arithmetic::Mul),
            Token::Sign("/") => A(Arithmetic::Div),
            Token::Sign("%") => A(Arithmetic::Mod),
            Token::Sign("**") => A(Arithmetic::Pow),
            Token::Sign("|") => Refused("BitOr", power::BIT_OR),
            Token::Sign("^") => Refused("BitXor", power::BIT_XOR),
            Token::Sign("&") => Refused("BitAnd", power::BIT_AND),
            Token::Sign("<<" | ">>") => Refused("shift", power::SHIFT),
            Token::Sign("=~" | "!~") => Refused("regular expression match", power::LIKE),
            Token::Word(word) => return Self::of_word(word),
            _ => return None,
        })
    }

    fn of_word(word: &str) -> Option<Self> {
        let all = [
            ("or", Self::Junction(Junction::Or)),
            ("and", Self::Junction(Junction::And)),
            ("in", Self::In),
            ("not", Self::NotMember),
            ("between", Self::Between),
            ("like", Self::Like),
            ("is", Self::IsNull),
        ];
        all.into_iter().find(|(small, _)| is_keyword(word, small)).map(|(_, infix)| infix)
    }

    pub(super) fn power(self) -> u8 {
        match self {
            Self::Junction(Junction::Or) => power::OR,
            Self::Junction(Junction::And) => power::AND,
            Self::Compare(comparison) if comparison.is_order() => power::ORDER,
            Self::Compare(_) => power::EQUALITY,
            Self::In | Self::NotMember | Self::Between => power::MEMBER,
            Self::Arithmetic(Arithmetic::Add | Arithmetic::Sub) => power::SUM,
            Self::Arithmetic(Arithmetic::Pow) => power::POWER,
            Self::Arithmetic(_) => power::PRODUCT,
            Self::Like => power::LIKE,
            Self::IsNull => power::IS_NULL,
            Self::Refused(_, power) => power,
        }
    }
}
