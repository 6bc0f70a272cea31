//! A tree as text, with a bracket around every operator; it is read as the same tree.

use std::fmt;

use super::strings::quote;
use super::tree::{Expr, Junction, Literal, Name, OperandKind, PathStep};

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) => f.write_str(&quote(text)),
            Self::Instant(text) => write!(f, "ISO {}", quote(text)),
            Self::Interval(text) => write!(f, "INTERVAL {}", quote(text)),
        }
    }
}

impl fmt::Display for PathStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "[{}]", quote(key)),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.path.iter().try_for_each(|step| step.fmt(f))
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            // Some operators bind more tightly than a sign does.
            OperandKind::Literal(Literal::Integer(value)) if *value < 0 => write!(f, "({value})"),
            OperandKind::Literal(Literal::Float(value)) if value.is_sign_negative() => {
                write!(f, "({value:?})")
            }
            OperandKind::Literal(literal) => literal.fmt(f),
            OperandKind::List(items) => {
                f.write_str("[")?;
                list(f, items, ", ")?;
                f.write_str("]")
            }
            OperandKind::Template(name) => write!(f, "{{{name}}}"),
            OperandKind::Name(name) => name.fmt(f),
            OperandKind::Junction(junction, terms) => {
                f.write_str("(")?;
                list(f, terms, if *junction == Junction::And { " and " } else { " or " })?;
                f.write_str(")")
            }
            OperandKind::Not(operand) => write!(f, "(not {operand})"),
            OperandKind::Minus(operand) => write!(f, "(-{operand})"),
            OperandKind::Compare(operator, both) => {
                write!(f, "({} {} {})", both.0, operator.sign(), both.1)
            }
            OperandKind::Arithmetic(operator, both) => {
                write!(f, "({} {} {})", both.0, operator.sign(), both.1)
            }
            OperandKind::Range(parts) => {
                let (value, low, high) = &**parts;
                if low.included && high.included {
                    return write!(f, "({value} between {} and {})", low.value, high.value);
                }
                let sign = |included| if included { "<=" } else { "<" };
                let (first, second) = (sign(low.included), sign(high.included));
                write!(f, "({} {first} {value} {second} {})", low.value, high.value)
            }
            OperandKind::In(both) => write!(f, "({} in {})", both.0, both.1),
            OperandKind::Like(both) => write!(f, "({} like {})", both.0, both.1),
            OperandKind::IsNull(operand) => write!(f, "({operand} is null)"),
            OperandKind::Exists(operand) => write!(f, "(exists {operand})"),
            OperandKind::Call(name, arguments) => {
                write!(f, "{name}(")?;
                list(f, arguments, ", ")?;
                f.write_str(")")
            }
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[Expr], between: &str) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            f.write_str(between)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}
