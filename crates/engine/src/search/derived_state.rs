//! The derived half of a search's state: what is made of the portable half where the search is, and
//! scratch.

use std::sync::Arc;

use super::allowed::SCAN_CHUNK;
use super::candidates::Candidate;
use super::deferred::DeferredNeighbours;
use super::frontier::Expanding;
use super::params::SearchParams;
use super::view::GraphView;
use super::visited::VisitedSet;
use crate::filter::{AllowSet, SLACK};
use crate::graph::HeadScratch;
use crate::quant::LookupTable;
use crate::types::PageId;

/// See the module's description.
pub(super) struct DerivedState {
    /// The nodes that may be answered; where a search goes on it is made of the filter.
    pub(super) allow: Option<Arc<AllowSet>>,
    /// Coded distance beyond which nothing is read; `None` where the list alone decides.
    pub(super) reach: Option<f32>,
    /// Coded distance beyond which only so many entries of the list are kept as lead on.
    pub(super) keeps_to: f32,
    /// Whether the graph is walked by exact distances.
    pub(super) in_memory: bool,
    /// Whether codes are looked up first where all is in memory.
    pub(super) screens: bool,
    pub(super) table: LookupTable,
    pub(super) visited: VisitedSet,
    pub(super) head_scratch: HeadScratch,
    pub(super) seeds: Vec<(f32, u32)>,
    pub(super) stash: DeferredNeighbours,
    pub(super) fresh: Vec<u32>,
    pub(super) scores: Vec<f32>,
    pub(super) coded: Vec<f32>,
    pub(super) neighbours: Vec<u32>,
    pub(super) at_page: Vec<Candidate>,
    pub(super) rebuild_pages: Vec<PageId>,
    pub(super) rebuild_issued: usize,
    pub(super) reissue: usize,
    pub(super) expanding: Expanding,
}

impl DerivedState {
    pub(super) fn new(view: &GraphView<'_>) -> Self {
        Self {
            allow: None,
            reach: None,
            keeps_to: f32::INFINITY,
            in_memory: false,
            screens: false,
            table: LookupTable::new(view.codebook),
            visited: VisitedSet::new(0),
            head_scratch: HeadScratch::default(),
            seeds: Vec::new(),
            stash: DeferredNeighbours::default(),
            fresh: Vec::new(),
            scores: Vec::new(),
            coded: Vec::new(),
            neighbours: Vec::new(),
            at_page: Vec::new(),
            rebuild_pages: Vec::new(),
            rebuild_issued: 0,
            reissue: 0,
            expanding: Expanding::default(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
            + self.visited.bytes()
            + self.stash.bytes()
            + (self.fresh.capacity() + self.scores.capacity() + self.neighbours.capacity()) * 4
    }

    /// Empties what belongs to a query, allow-set, look-up table and visited set aside, and makes room
    /// beside a list of `capacity`.
    pub(super) fn reset(&mut self, view: &GraphView<'_>, params: &SearchParams, capacity: usize) {
        let degree = view.list_bound();
        self.reach = None;
        self.keeps_to = f32::INFINITY;
        self.in_memory = false;
        self.stash.reset(capacity + 1, degree);
        self.fresh.clear();
        self.fresh.reserve(degree.max(SCAN_CHUNK + SLACK));
        self.scores.resize(degree.max(SCAN_CHUNK).max(params.head_list), 0.0);
        self.coded.reserve(degree);
        self.neighbours.reserve(degree);
        self.at_page.reserve(view.layout.records_per_page());
        self.seeds.reserve(params.head_list);
        self.rebuild_pages.clear();
        self.rebuild_issued = 0;
        self.reissue = 0;
        self.expanding.on = false;
    }
}
