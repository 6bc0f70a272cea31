//! A collection made or opened: components taken to where the log ends, and how it comes to follow a
//! log that others write.

pub(in crate::collection) mod follow;
pub(in crate::collection) mod recover;
pub(in crate::collection) mod replay;
