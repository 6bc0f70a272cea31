//! Live inserts and deletes on the SSD graph.
//!
//! A [`LiveIndex`] opens an index directory for reading and writing. What is on disk stays as it
//! is; changes stand in memory beside it and are visible to every search that begins after
//! them. [`LiveIndex::checkpoint`] writes them as the next generation, copy on write, and swaps
//! the manifest; [`LiveIndex::consolidate`] takes deleted nodes out of the graph.
//!
//! | file | holds |
//! |---|---|
//! | `generation` | one generation with its changes; `patches`, `rows`, `bitmap`, `slots` are its parts |
//! | `session` | the generation as one search sees it |
//! | `together` | searches: one, or several at once on one thread |
//! | `find` | rows to link: the search for their neighbours, several at once; `link_pace` says how many |
//! | `insert` | linking a row that was searched for |
//! | `replay` | linking a row by a [`LinkedRow`] made before |
//! | `adopt` | linking a row by the edges that another index has chosen |
//! | `choose` | the edges of one node |
//! | `images` | pages at hand while edges are chosen; `page_table`, a table by page number |
//! | `head` | the head index as rows come and go |
//! | `checkpoint` | the next generation: `segments` says what goes where, `fold` makes the pages, `writing` and `files` write |
//! | `exchange` | one generation in place of another, with what inserts, deletes and searches notice of it |
//! | `rewrite` | all pages in a new order: `renumber` chooses it, `gather` makes the pages |
//! | `retrain` | a codebook for the rows of now, and whether it is due |
//! | `upkeep` | when a checkpoint, a consolidation and a rewrite are due |
//! | `orphan_files` | files that no generation names any more |
//! | `consolidate` | deleted nodes leave the graph; `pass`, how far that has come |
//!
//! Who waits for whom: searches take latches of a few instructions (the current generation, one
//! page's patch) and never wait for an insert, a checkpoint or I/O of another. Inserts share the
//! lock `writers`; a checkpoint and a step of consolidation hold it alone. A delete waits for
//! neither. Durability between checkpoints is the log's: nothing here is on stable storage before
//! a checkpoint.

mod adopt;
mod batch;
mod bitmap;
mod checkpoint;
mod choose;
mod consolidate;
mod error;
mod exchange;
mod files;
mod find;
mod fold;
mod gather;
mod generation;
mod head;
mod images;
mod insert;
mod insert_scratch;
mod link_pace;
mod live;
mod orphan_files;
mod page_table;
mod pass;
mod patches;
mod renumber;
mod replay;
mod retrain;
mod rewrite;
mod rows;
mod segments;
mod session;
mod slots;
mod upkeep;
mod writing;

#[cfg(test)]
mod tests;

pub use adopt::{AdoptedFn, RowLink};
pub use checkpoint::CheckpointReport;
pub use consolidate::ConsolidateReport;
pub use error::UpdateError;
pub use files::{DiskFiles, Files, NewFile};
pub use find::LinkedFn;
pub use insert::LinkedRow;
pub use link_pace::LinkPace;
pub use live::{AllowList, LiveIndex, LiveOptions};
pub use rewrite::Rewrite;
pub use upkeep::{Due, UpkeepOptions, UpkeepReport};
