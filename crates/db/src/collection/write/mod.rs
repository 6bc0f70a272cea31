//! Writes: checked, given a place in the log, applied in its order and answered; bulk loads, whose
//! batches are announced.
//!
//! Deliberately absent: how a filter finds the rows that it deletes, and how an upsert of some fields
//! reads what stays.

pub(in crate::collection) mod assigned;
pub(in crate::collection) mod bulk_load;
pub(in crate::collection) mod commit_sequencer;
pub(in crate::collection) mod delete;
pub(in crate::collection) mod insert;
pub(in crate::collection) mod loads;
pub(in crate::collection) mod loads_file;
pub(in crate::collection) mod partial;
pub(in crate::collection) mod prepare;
pub(in crate::collection) mod repeated;
pub(in crate::collection) mod state;
