//! Tests of the search room over a small index held in memory.

mod among;
mod fixture;
mod machine;
mod portable;
mod threads;
