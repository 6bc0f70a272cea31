//! Loads that change an index while it is searched: one file for each workload, and what they
//! share.
//!
//! | file | holds |
//! |---|---|
//! | `command` | the workloads as subcommands |
//! | `insert` | rows of a file linked into a built index |
//! | `churn` | all rows replaced in steps, again and again |
//! | `drift` | rows of other clusters than the index was built of |
//! | `load` | what these two do alike: inserts, upkeep, searches beside |
//! | `curve` | recall and reads afterwards |
//! | `opening` | an index opened for changes |
//! | `linking` | rows linked by several threads at a rate, with checkpoints |
//! | `beside` | one query in flight, its latency noted, alone or beside a load |
//! | `log_bytes` | what the log of a collection takes for a row and its link |

mod at_once;
mod beside;
mod churn;
pub(crate) mod command;
mod curve;
mod drift;
mod insert;
mod linking;
mod load;
mod log_bytes;
mod opening;
