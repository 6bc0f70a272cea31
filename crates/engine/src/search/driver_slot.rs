//! A query in flight at a driver, and its clock.

use std::time::Instant;

use super::load::UnderWay;
use super::source::PageSource;
use super::state::SearchState;
use super::view::GraphView;

/// See the module's description.
pub(super) struct QuerySlot {
    pub(super) state: SearchState,
    pub(super) job: usize,
    pub(super) started: Instant,
    pub(super) first_read_ns: Option<u64>,
    pub(super) compute_ns: u64,
    pub(super) active: bool,
    pub(super) touched: bool,
    pub(super) under_way: Option<UnderWay>,
    /// Searches under way when it began, itself among them.
    pub(super) among: u32,
}

impl QuerySlot {
    pub(super) fn new(view: &GraphView<'_>) -> Self {
        Self {
            state: SearchState::new(view),
            job: 0,
            started: Instant::now(),
            first_read_ns: None,
            compute_ns: 0,
            active: false,
            touched: false,
            under_way: None,
            among: 0,
        }
    }

    pub(super) fn begin(&mut self, source: &dyn PageSource) {
        self.under_way = source.begun();
        self.among = source.view().searches;
        self.started = Instant::now();
        self.first_read_ns = None;
        self.compute_ns = 0;
        self.active = true;
    }
}
