//! What is wrong with the parameters of a search.

use std::fmt;

/// A parameter that cannot be used. The caller has to change the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// A number out of range.
    Range {
        /// The parameter.
        name: &'static str,
        /// Value given.
        value: usize,
        /// Smallest allowed here.
        min: usize,
        /// Largest allowed here.
        max: usize,
    },
    /// An end of the range of distances is no number.
    Distances,
    /// Steps that make no table of widths; says what is wrong with them.
    WidthSteps(String),
    /// No policy of this name.
    UnknownPolicy(String),
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { name, value, min, max } => {
                write!(f, "{name} is {value}, but must be from {min} to {max}")
            }
            Self::Distances => f.write_str("an end of the range of distances is NaN"),
            Self::WidthSteps(why) => write!(f, "no table of widths by searches: {why}"),
            Self::UnknownPolicy(name) => {
                write!(
                    f,
                    "unknown search policy `{name}`; known are auto, pipe, beam, page, relay, baton"
                )
            }
        }
    }
}

impl std::error::Error for ParamError {}
