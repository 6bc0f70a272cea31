//! A generation as one search sees it: the pages on disk, blank ones for pages that are not
//! there yet, and the head index and the number of nodes as they were when the search began.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::generation::Generation;
use super::images::SeenPages;
use super::link_pace::LinkPace;
use crate::graph::HeadIndex;
use crate::io::{Device, IoError};
use crate::search::{
    AllPages, EpochGuard, GraphView, PageSource, ReadFailure, ResidentPages, SearchStats, UnderWay,
};
use crate::types::PageId;

/// See the module's description.
pub(super) struct Session<'g> {
    generation: &'g Generation,
    head: Option<Arc<HeadIndex>>,
    node_slots: u32,
}

impl<'g> Session<'g> {
    pub(super) fn new(generation: &'g Generation) -> Self {
        let node_slots = generation.node_slots.load(Ordering::Acquire);
        Self { generation, head: generation.head(), node_slots }
    }
}

impl PageSource for Session<'_> {
    fn view(&self) -> GraphView<'_> {
        let view = self.generation.index.view();
        GraphView {
            head: self.head.as_deref(),
            entry: self.generation.entry(),
            node_slots: self.node_slots,
            overlay: Some(self.generation),
            ..view
        }
    }

    fn locate(&self, page: PageId) -> (&Device, u64) {
        self.generation.index.locate(page)
    }

    fn page_bytes(&self) -> usize {
        self.generation.layout().page_bytes()
    }

    fn lease(&self, holder: usize) -> EpochGuard<'_> {
        self.generation.index.lease(holder)
    }

    fn all_pages<'p>(&'p self, lease: &'p EpochGuard<'_>) -> Option<AllPages<'p>> {
        self.generation.index.all_pages(lease).map(|_| AllPages::new(self, lease))
    }

    fn resident<'p>(&'p self, lease: &'p EpochGuard<'_>, page: PageId) -> Option<&'p [u8]> {
        let fresh = self.generation.fresh_image(page);
        fresh.or_else(|| self.generation.index.resident(lease, page))
    }

    fn accept(&self, page: PageId, bytes: &[u8]) -> Result<(), ReadFailure> {
        self.generation.index.accept(page, bytes)
    }

    fn begun(&self) -> Option<UnderWay> {
        self.generation.index.begun()
    }

    fn ended(&self, stats: &SearchStats, in_flight: usize) {
        self.generation.index.ended(stats, in_flight);
    }

    fn describe(&self, page: PageId, error: &IoError) -> ReadFailure {
        self.generation.index.describe(page, error)
    }
}

impl ResidentPages for Session<'_> {
    fn page<'p>(&'p self, lease: &'p EpochGuard<'_>, page: PageId) -> Option<&'p [u8]> {
        let fresh = self.generation.fresh_image(page);
        fresh.or_else(|| self.generation.index.page_held(lease, page))
    }

    fn used(&self, page: PageId) {
        self.generation.index.page_used(page);
    }
}

/// A session whose searches look for the neighbours of rows that are linked: it keeps for each of
/// them the pages that it looked at, with copies of those that were read.
pub(super) struct Collector<'a> {
    pub(super) session: &'a Session<'a>,
    /// Whether its searches count among those under way, which others share the device with.
    counted: bool,
    /// Of each search under way. The locks are there since a page source is shared between
    /// threads; this one is not.
    under_way: Mutex<Vec<(usize, SeenPages)>>,
    idle: Mutex<Vec<SeenPages>>,
}

impl<'a> Collector<'a> {
    /// A collector that fills `idle` ones first. At a gentle pace its searches give way to all
    /// others: these are to go on as if they were alone.
    pub(super) fn new(session: &'a Session<'a>, pace: LinkPace, idle: Vec<SeenPages>) -> Self {
        let counted = pace == LinkPace::Full;
        Self { session, counted, under_way: Mutex::default(), idle: Mutex::new(idle) }
    }

    fn under_way(&self) -> MutexGuard<'_, Vec<(usize, SeenPages)>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<SeenPages>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A search that is about to begin.
    pub(super) fn begin(&self, job: usize) {
        let mut seen = self.idle().pop().unwrap_or_default();
        seen.clear(self.page_bytes());
        self.under_way().push((job, seen));
    }

    /// What a search that has ended looked at.
    pub(super) fn end(&self, job: usize) -> SeenPages {
        let mut all = self.under_way();
        let at = all.iter().position(|(of, _)| *of == job);
        at.map(|at| all.swap_remove(at).1).unwrap_or_default()
    }

    /// Takes back what [`end`](Self::end) gave.
    pub(super) fn give_back(&self, seen: SeenPages) {
        self.idle().push(seen);
    }

    /// All that can be filled again.
    pub(super) fn into_idle(self) -> Vec<SeenPages> {
        self.idle.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageSource for Collector<'_> {
    fn view(&self) -> GraphView<'_> {
        let node_slots = self.session.generation.node_slots.load(Ordering::Acquire);
        // Each page is to be noted, so searches ask for them, though all were in memory.
        GraphView { node_slots, ..self.session.view() }
    }

    fn locate(&self, page: PageId) -> (&Device, u64) {
        self.session.locate(page)
    }

    fn page_bytes(&self) -> usize {
        self.session.page_bytes()
    }

    fn lease(&self, holder: usize) -> EpochGuard<'_> {
        self.session.lease(holder)
    }

    fn resident<'p>(&'p self, lease: &'p EpochGuard<'_>, page: PageId) -> Option<&'p [u8]> {
        self.session.resident(lease, page)
    }

    fn accept(&self, page: PageId, bytes: &[u8]) -> Result<(), ReadFailure> {
        self.session.accept(page, bytes)
    }

    fn begun(&self) -> Option<UnderWay> {
        if self.counted { self.session.begun() } else { None }
    }

    fn describe(&self, page: PageId, error: &IoError) -> ReadFailure {
        self.session.describe(page, error)
    }

    fn taken(&self, job: usize, page: PageId, bytes: &[u8]) {
        if let Some((_, seen)) = self.under_way().iter_mut().find(|(of, _)| *of == job) {
            match self.session.generation.fresh_image(page) {
                // It is as it was while the generation is the current one.
                Some(_) => seen.note(page),
                None => seen.add(page, bytes),
            }
        }
    }
}
