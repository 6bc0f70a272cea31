//! The search: a state machine without I/O, its policies, and the thread driver around it.
//!
//! [`SearchState`] is handed finished pages ([`SearchState::receive`]) and asked what to do next
//! ([`SearchState::step`]); it answers with a page to read, with word that it explored a node,
//! that it waits, or that it is done. It knows no clock, thread or file, and advancing it
//! allocates nothing. Every search mode is a [`Policy`] of this one machine: PipeSearch
//! (Guo and Lu, PipeANN, OSDI 2025), beam search (DiskANN, NeurIPS 2019) and page search.
//! [`Driver`], with how it waits and what it measures, is all of this room that reads a clock or touches an I/O queue.

mod allow_list;
mod allowed;
mod begin;
mod by_load;
mod candidates;
mod coding_error;
mod cold;
mod costs;
mod deferred;
mod derived_state;
mod distance_range;
mod driver;
mod driver_jobs;
mod driver_meter;
mod driver_options;
mod driver_slot;
mod driver_spin;
mod epoch_guard;
mod error;
mod expansion;
mod explore;
mod feed;
mod frontier;
mod here;
mod hits;
mod import;
mod in_memory;
mod load;
mod overlay;
mod owned;
mod pace;
mod page_records;
mod param_error;
mod params;
mod policy;
mod portable;
mod portable_error;
mod portable_header;
mod portable_state;
mod read_failure;
mod receive;
mod resume;
mod scratch;
mod seed;
mod source;
mod state;
mod state_reader;
mod stats;
mod step;
mod view;
mod visited;
mod width;
mod within;
mod without;

pub use allowed::scan_pays;
pub use by_load::{ByLoad, WidthTable};
pub use candidates::{Candidate, CandidateList, CandidateProgress};
pub use coding_error::CodingError;
pub use costs::ReadCosts;
pub use distance_range::DistanceRange;
pub use driver::Driver;
pub use driver_options::DriverOptions;
#[cfg(debug_assertions)]
pub(crate) use epoch_guard::has_lease;
pub use epoch_guard::{EpochGuard, EpochGuards};
pub use error::SearchError;
pub use feed::{AnswerFn, Drawn, Feed, FeedOutcome, QueryJob};
pub use frontier::{Expanded, Expansion, Frontier, FrontierError};
pub use hits::{Hit, HitList};
pub use load::{ConcurrentLoad, UnderWay};
pub use overlay::{Edges, NewRecord, Overlay, PagePatch, SlotPatch};
pub use owned::{Origin, Owned};
pub use pace::PaceShare;
pub use page_records::PageRecords;
pub use param_error::ParamError;
pub use params::SearchParams;
pub use policy::{Issue, Policy};
pub use portable_error::PortableError;
pub use read_failure::ReadFailure;
pub(crate) use scratch::ReservedScratch;
pub use source::PageSource;
pub use state::{SearchState, Step};
pub use stats::SearchStats;
pub use view::{AllPages, CodeAccess, CodesUnavailable, GraphView, ResidentPages};
pub use visited::{Seen, VisitedSet};
pub use width::Width;

#[cfg(test)]
mod tests;
