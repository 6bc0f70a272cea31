//! The language as a whole: what is read, what is refused and where, and what matches.

mod document;
mod errors;
mod hostile;
mod model;
mod parsing;
mod rows;
mod semantics;
