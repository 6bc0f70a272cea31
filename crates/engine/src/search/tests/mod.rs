//! Tests of the search room over a small index held in memory.

mod allow_list;
mod expansion;
mod fixture;
mod in_memory;
mod machine;
mod more;
mod portable;
mod relay;
mod rounds;
mod scratch;
mod threads;
mod within;
mod without;
