//! The portable half of a search's state: what goes to another server with it, and what it goes on
//! with. `portable` has its bytes.

use super::allowed::AllowedNodes;
use super::candidates::CandidateList;
use super::coding_error::CodingError;
use super::distance_range::Ranged;
use super::hits::HitList;
use super::params::SearchParams;
use super::stats::SearchStats;
use crate::types::{NodeId, PageId};

/// A read under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct InFlight {
    pub(super) page: PageId,
    /// The node it was issued for.
    pub(super) node: NodeId,
}

/// See the module's description.
pub(super) struct PortableState {
    pub(super) query: Vec<u8>,
    pub(super) params: SearchParams,
    /// Candidates, nearest first. Where the neighbours of one wait is derived.
    pub(super) list: CandidateList,
    pub(super) hits: HitList,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) read_for: Vec<NodeId>,
    pub(super) width: u16,
    pub(super) finished: u32,
    pub(super) finished_in_list: u32,
    pub(super) converging: bool,
    pub(super) filling: bool,
    pub(super) explored_last: bool,
    /// What the allow-set was made of, for where a search goes on.
    pub(super) filter: Vec<u8>,
    pub(super) among: AllowedNodes,
    pub(super) coding_error: CodingError,
    pub(super) ranged: Ranged,
    pub(super) stats: SearchStats,
}

impl PortableState {
    pub(super) fn new() -> Self {
        Self {
            query: Vec::new(),
            params: SearchParams::default(),
            list: CandidateList::new(0),
            hits: HitList::default(),
            in_flight: Vec::new(),
            read_for: Vec::new(),
            width: 1,
            finished: 0,
            finished_in_list: 0,
            converging: false,
            filling: true,
            explored_last: true,
            filter: Vec::new(),
            among: AllowedNodes::all(),
            coding_error: CodingError::default(),
            ranged: Ranged::default(),
            stats: SearchStats::default(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.list.bytes()
            + self.hits.bytes()
            + self.query.capacity()
            + self.filter.capacity()
            + self.read_for.capacity() * size_of::<NodeId>()
    }

    /// Empties what a search comes to know, hits aside, and makes room for a list of `capacity`.
    pub(super) fn reset(&mut self, capacity: usize) {
        self.list.reset(capacity);
        self.in_flight.clear();
        self.in_flight.reserve(usize::from(self.params.policy.width.max()));
        self.read_for.clear();
        self.read_for.reserve(4 * capacity + 64);
        self.width = self.params.policy.width.start();
        self.finished = 0;
        self.finished_in_list = 0;
        self.converging = false;
        self.filling = true;
        self.explored_last = true;
        self.coding_error = CodingError::default();
        self.ranged = Ranged::default();
        self.stats = SearchStats { width_max: u64::from(self.width), ..Default::default() };
    }
}
