//! Loads on a database of collections, measured: one file for each workload, and what they share.
//!
//! | file | holds |
//! |---|---|
//! | `opening` | a database and its collection, made or opened |
//! | `fill` | rows of a file inserted, and the graph built over them |
//! | `reopen` | opening after whatever ended the last process, until the first correct answer |
//! | `live` | inserts, deletes and searches on several collections under one memory limit |

pub(crate) mod fill;
pub(crate) mod live;
pub(crate) mod opening;
pub(crate) mod reopen;
