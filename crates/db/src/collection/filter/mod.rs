//! Filters: bound to a schema, asked of indexes, and resolved to the rows that match at a moment.

pub(in crate::collection) mod condition;
pub(in crate::collection) mod explain;
pub(in crate::collection) mod filter_cache;
pub(in crate::collection) mod filter_result_cache;
pub(in crate::collection) mod matching;
pub(in crate::collection) mod prefilter;
pub(in crate::collection) mod scalars;
