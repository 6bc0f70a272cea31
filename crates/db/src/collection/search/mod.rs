//! Searches: what is asked, the batch that answers it, and what is done with the rows near a query.
//!
//! `request` and `answer` are what doors see; `batch` looks up what a request names, `nearest` finds
//! rows, `grouping` and `fuse` choose among them.

pub(in crate::collection) mod answer;
pub(in crate::collection) mod batch;
pub(in crate::collection) mod costs;
pub(in crate::collection) mod fuse;
pub(in crate::collection) mod grouping;
pub(in crate::collection) mod nearest;
pub(in crate::collection) mod request;
