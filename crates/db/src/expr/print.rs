//! A tree as text, with a bracket around every operator; it is read as the same tree.

use std::fmt;

use super::strings::quote;
use super::tree::{Expr, Junction, Kind, Literal, Name, Step};

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

impl fmt::Display for Step {
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
            Kind::Literal(Literal::Integer(value)) if *value < 0 => write!(f, "({value})"),
            Kind::Literal(Literal::Float(value)) if value.is_sign_negative() => {
                write!(f, "({value:?})")
            }
            Kind::Literal(literal) => literal.fmt(f),
            Kind::List(items) => {
                f.write_str("[")?;
                list(f, items, ", ")?;
                f.write_str("]")
            }
            Kind::Template(name) => write!(f, "{{{name}}}"),
            Kind::Name(name) => name.fmt(f),
            Kind::Junction(junction, terms) => {
                f.write_str("(")?;
                list(f, terms, if *junction == Junction::And { " and " } else { " or " })?;
                f.write_str(")")
            }
            Kind::Not(operand) => write!(f, "(not {operand})"),
            Kind::Minus(operand) => write!(f, "(-{operand})"),
            Kind::Compare(operator, both) => {
                write!(f, "({} {} {})", both.0, operator.sign(), both.1)
            }
            Kind::Arithmetic(operator, both) => {
                write!(f, "({} {} {})", both.0, operator.sign(), both.1)
            }
            Kind::Range(parts) => {
                let (value, low, high) = &**parts;
                if low.included && high.included {
                    return write!(f, "({value} between {} and {})", low.value, high.value);
                }
                let sign = |included| if included { "<=" } else { "<" };
                let (first, second) = (sign(low.included), sign(high.included));
                write!(f, "({} {first} {value} {second} {})", low.value, high.value)
            }
            Kind::In(both) => write!(f, "({} in {})", both.0, both.1),
            Kind::Like(both) => write!(f, "({} like {})", both.0, both.1),
            Kind::IsNull(operand) => write!(f, "({operand} is null)"),
            Kind::Exists(operand) => write!(f, "(exists {operand})"),
            Kind::Call(name, arguments) => {
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
