//! The language as a whole: what is read, what is refused and where, and what matches.

mod document;
mod errors;
mod hostile;
mod logic;
mod model;
mod nested;
mod parsing;
mod rows;
mod semantics;
