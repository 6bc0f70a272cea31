//! Reads as of one moment: by key, by filter, page by page, and the moments that somebody keeps.

pub(in crate::collection) mod iterate;
pub(in crate::collection) mod pins;
pub(in crate::collection) mod query;
pub(in crate::collection) mod rows;

#[cfg(test)]
mod moment_tests;
