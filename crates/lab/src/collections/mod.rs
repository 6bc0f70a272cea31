//! Loads on a database of collections, measured: one file for each workload, and what they share.
//!
//! | file | holds |
//! |---|---|
//! | `command` | the workloads as subcommands |
//! | `opening` | a database and its collection, made or opened |
//! | `columns` | columns of rows beside the file of their vectors |
//! | `fill` | rows of a file inserted, and the graph built over them |
//! | `reopen` | opening after whatever ended the last process, until the first correct answer |
//! | `live` | inserts, deletes and searches on several collections under one memory limit |
//! | `search` | queries, with filters or without, measured and compared with the truth |
//! | `rounds` | its rounds, timed and compared |
//! | `asked` | the queries of a search, their filters and what should be found |
//! | `plans` | what the database says of how it answers filters |

mod asked;
mod columns;
pub(crate) mod command;
mod fill;
mod live;
mod opening;
mod plans;
mod reopen;
mod rounds;
mod search;
