//! What the parser makes of an expression: names, not yet fields.
//!
//! Chains of `and` and of `or` are one node each, so that depth is the depth of brackets and of
//! arithmetic; it is bounded, and whoever walks the tree may recurse.

use super::error::Span;

/// A step into an array or a JSON value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathStep {
    /// A key of an object.
    Key(String),
    /// A position in an array, from 0.
    Index(u32),
}

/// An operator that compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `==`, `=`
    Eq,
    /// `!=`, `<>`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Comparison {
    /// The same with its sides swapped.
    #[must_use]
    pub fn swapped(self) -> Self {
        match self {
            Self::Eq | Self::Ne => self,
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
        }
    }

    /// Whether it asks which is larger.
    pub fn is_order(self) -> bool {
        !matches!(self, Self::Eq | Self::Ne)
    }

    /// As it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }
}

/// An operator that calculates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
    /// `**`
    Pow,
}

impl Arithmetic {
    /// As it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
            Self::Pow => "**",
        }
    }
}

/// `and` or `or`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Junction {
    And,
    Or,
}

/// A value that stands in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Box<str>),
    /// The text behind `ISO`.
    Instant(Box<str>),
    /// The text behind `INTERVAL`.
    Interval(Box<str>),
}

/// A field or a dynamic key, and what is meant inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) name: String,
    pub(super) path: Vec<PathStep>,
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RangeEnd {
    pub(super) value: Expr,
    pub(super) included: bool,
}

/// A list, a template, or what else stands behind `in`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OperandKind {
    Literal(Literal),
    List(Vec<Expr>),
    Template(Box<str>),
    Name(Box<Name>),
    Junction(Junction, Vec<Expr>),
    Not(Box<Expr>),
    Minus(Box<Expr>),
    Compare(Comparison, Box<(Expr, Expr)>),
    Arithmetic(Arithmetic, Box<(Expr, Expr)>),
    /// The value, low end, high end.
    Range(Box<(Expr, RangeEnd, RangeEnd)>),
    In(Box<(Expr, Expr)>),
    Like(Box<(Expr, Expr)>),
    IsNull(Box<Expr>),
    Exists(Box<Expr>),
    Call(Box<str>, Vec<Expr>),
}

/// A node with its place in the text.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    pub(super) kind: OperandKind,
    pub(super) span: Span,
    /// Levels below, and this one.
    pub(super) height: u16,
}

/// Places do not count.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}
