//! The thread driver: one I/O queue, several queries in flight, each refilled as it finishes.
//!
//! The driver owns the clock and the queue and knows nothing of vectors; the state machines know
//! nothing of either. A page that two queries want at once is read once. Submissions are pushed
//! as the states ask for them and reach the kernel in batches: together with the wait for the
//! next completion where there is nothing left to compute, and earlier where the device would
//! otherwise run dry.
//!
//! Invariants: a buffer belongs either to the queue's free list or to one read under way; a read
//! whose queries have all ended stays under way until its completion returns the buffer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::driver_meter::Meter;
use super::driver_options::DriverOptions;
use super::driver_slot::QuerySlot;
use super::driver_spin::look_out;
use super::error::SearchError;
use super::feed::{AnswerFn, Drawn, Feed, FeedOutcome, Jobs};
use super::source::{PageSource, SeenIndex};
use super::state::{SearchState, Step};
use crate::io::{Backend, BufferId, Completion, IoError, Queue, QueueOptions, Wait, Waker};
use crate::types::PageId;

fn nanos_since(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

#[derive(Clone, Copy)]
struct ReadUnderWay {
    page: PageId,
    buffer: BufferId,
    /// Bit i: slot i waits for the page.
    waiters: u64,
    active: bool,
}

/// Numbers drivers, so that leases of different ones are counted apart.
static DRIVERS: AtomicUsize = AtomicUsize::new(0);

/// See the module's description.
pub struct Driver {
    number: usize,
    queue: Box<dyn Queue>,
    slots: Vec<QuerySlot>,
    reads: Vec<ReadUnderWay>,
    free_tags: Vec<u32>,
    backlog: VecDeque<(usize, PageId)>,
    completions: Vec<Completion>,
    unflushed: usize,
    /// Steps of searches, for asking now and then whether anyone waits.
    steps: u32,
    given_up: bool,
    meter: Meter,
}

impl Driver {
    /// A driver with its own queue of `backend`, for searches over `source`.
    ///
    /// # Errors
    /// [`IoError`] where the queue cannot be made.
    pub fn new(
        backend: &dyn Backend,
        source: &dyn PageSource,
        options: &DriverOptions,
    ) -> Result<Self, IoError> {
        let depth = options.depth.clamp(1, 4096);
        let queue = backend.queue(&QueueOptions {
            depth,
            buffers: depth,
            buffer_bytes: source.page_bytes(),
            sqpoll: options.sqpoll,
            wait: Wait::Sleep,
        })?;
        let view = source.view();
        let slot = || QuerySlot::new(&view);
        let none =
            ReadUnderWay { page: PageId(0), buffer: BufferId::NONE, waiters: 0, active: false };
        Ok(Self {
            number: DRIVERS.fetch_add(1, Ordering::Relaxed),
            queue,
            slots: (0..options.queries.clamp(1, 64)).map(|_| slot()).collect(),
            reads: vec![none; depth],
            free_tags: (0..depth as u32).rev().collect(),
            backlog: VecDeque::with_capacity(depth),
            completions: Vec::with_capacity(depth),
            unflushed: 0,
            steps: 0,
            given_up: false,
            meter: Meter::new(depth),
        })
    }

    /// What ends a wait of this driver for reads, where its feed has a search for it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn waker(&mut self) -> Result<Waker, IoError> {
        self.queue.waker()
    }

    /// Queries that can be in flight.
    pub fn queries(&self) -> usize {
        self.slots.len()
    }

    /// Searches what `feed` gives until it has no more and all have ended. Up to `queries` are in
    /// flight, at most [`Self::queries`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn work(
        &mut self,
        source: &dyn PageSource,
        queries: usize,
        feed: &mut dyn Feed,
    ) -> Result<(), SearchError> {
        let in_flight = queries.clamp(1, self.slots.len());
        let mut active = 0;
        let mut over = false;
        self.check_sound()?;
        self.given_up = false;
        self.meter.begin();
        loop {
            let mut drawn = Drawn::Search;
            for s in 0..in_flight {
                while !over && drawn == Drawn::Search && !self.slots[s].active {
                    if active == 0 {
                        self.meter.leave();
                    }
                    drawn = feed.draw(active == 0);
                    if active == 0 {
                        self.meter.begin();
                    }
                    if drawn != Drawn::Search {
                        over = drawn == Drawn::Over;
                        break;
                    }
                    active += 1;
                    let slot = &mut self.slots[s];
                    slot.begin(source);
                    self.meter.join(slot.under_way.as_ref());
                    // What has become visible since `run` was called is so for this query.
                    let lease = source.lease(self.number);
                    let seen = SeenIndex::of(source, &lease);
                    let (number, begun) = feed.begin(&mut slot.state, &seen.view);
                    slot.job = number;
                    match begun {
                        Ok(()) => active -= self.drive(s, &seen, feed)?,
                        Err(e) => active -= self.fail(s, e, feed),
                    }
                }
            }
            if active == 0 && over {
                self.meter.leave();
                return Ok(());
            }
            if active > 0 {
                let room = !over && active < in_flight;
                active -= self.round(active, room, source, feed)?;
            }
        }
    }

    /// Continues the state in slot 0, which [`Self::run`] or [`Self::resume`] left there, until
    /// it is done again.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn resume(
        &mut self,
        source: &dyn PageSource,
        answer: &mut AnswerFn<'_>,
    ) -> Result<(), SearchError> {
        self.check_sound()?;
        self.given_up = false;
        let (next, stop) = (&mut || None, &|| false);
        let feed = &mut Jobs { allow: None, next, answer, drawn: None, stop };
        self.slots[0].begin(source);
        self.meter.begin();
        self.meter.join(self.slots[0].under_way.as_ref());
        let mut active = {
            let lease = source.lease(self.number);
            1 - self.drive(0, &SeenIndex::of(source, &lease), feed)?
        };
        while active > 0 {
            active -= self.round(active, false, source, feed)?;
        }
        self.meter.leave();
        Ok(())
    }

    /// Gives memory back that only the longest searches need.
    pub(crate) fn slim(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.state.slim());
    }

    /// The state in slot 0, for continuing or handing it on.
    pub fn state(&mut self) -> &mut SearchState {
        &mut self.slots[0].state
    }

    /// Takes in completions, waiting for one where none is there, and drives the queries that
    /// got pages. Returns how many ended. Where there is room for another query, the wait ends when
    /// there is one.
    fn round(
        &mut self,
        active: usize,
        room: bool,
        source: &dyn PageSource,
        feed: &mut dyn Feed,
    ) -> Result<usize, SearchError> {
        let mut ended = 0;
        self.completions.clear();
        let mut completions = std::mem::take(&mut self.completions);
        if self.unflushed >= FLUSH_BUSY {
            self.flush()?;
        }
        self.queue.poll(&mut completions).map_err(broken)?;
        if completions.is_empty() {
            self.meter.started();
            self.unflushed = 0;
            if active == 1 && source.view().alone {
                let wanted = || room && feed.has_more();
                look_out(self.queue.as_mut(), &mut completions, wanted).map_err(broken)?;
            }
        }
        if completions.is_empty() && room && !feed.pauses() {
            self.completions = completions;
            self.flush()?;
            return Ok(0);
        }
        if completions.is_empty() {
            // One query wants the first page that comes; many are served in fuller rounds.
            let least = if active > 1 && !room { self.queue.in_flight() / ROUND } else { 1 };
            let from = Instant::now();
            self.queue.wait_for(least.max(1), &mut completions).map_err(broken)?;
            self.meter.slept(from.elapsed());
            if room {
                feed.resumes();
            }
        }
        self.meter.finished(completions.iter().map(|c| c.tag as u32));
        let lease = source.lease(self.number);
        let seen = SeenIndex::of(source, &lease);
        for completion in &completions {
            ended += self.deliver(completion, &seen, feed);
        }
        self.completions = completions;
        self.drain_backlog(source)?;
        for s in 0..self.slots.len() {
            if std::mem::take(&mut self.slots[s].touched) && self.slots[s].active {
                ended += self.drive(s, &seen, feed)?;
            }
        }
        Ok(ended)
    }

    /// Hands a finished page to the queries that wait for it. Returns how many ended by failure.
    fn deliver(
        &mut self,
        completion: &Completion,
        &SeenIndex { source, ref view, .. }: &SeenIndex<'_>,
        feed: &mut dyn Feed,
    ) -> usize {
        let tag = completion.tag as usize;
        let ReadUnderWay { page, buffer, mut waiters, .. } = self.reads[tag];
        self.reads[tag].active = false;
        self.free_tags.push(tag as u32);
        let mut failed = 0;
        let outcome = if waiters == 0 {
            Ok(())
        } else {
            match &completion.result {
                Ok(_) => source.accept(page, self.queue.buffer(buffer)),
                Err(e) => Err(source.describe(page, e)),
            }
        };
        while waiters != 0 {
            let s = waiters.trailing_zeros() as usize;
            waiters &= waiters - 1;
            match &outcome {
                Ok(()) => {
                    let slot = &mut self.slots[s];
                    let from = Instant::now();
                    let bytes = self.queue.buffer(buffer);
                    slot.state.receive(view, page, bytes);
                    source.taken(slot.job, page, bytes);
                    slot.compute_ns += nanos_since(from);
                    slot.touched = true;
                }
                Err(e) => {
                    failed += self.fail(s, SearchError::Unreadable(e.clone()), feed);
                }
            }
        }
        self.queue.return_buffer(buffer);
        failed
    }

    /// Steps the query in slot `s` until it waits or ends. Returns 1 where it ended.
    fn drive(
        &mut self,
        s: usize,
        seen: &SeenIndex<'_>,
        feed: &mut dyn Feed,
    ) -> Result<usize, SearchError> {
        let from = Instant::now();
        // The reads of a single search leave at once, those of many in batches.
        let single = seen.view.searches == 1;
        loop {
            if self.is_given_up(feed) {
                return Ok(self.fail(s, SearchError::Stopped, feed));
            }
            match self.slots[s].state.step(&seen.view) {
                Ok(Step::Read(page)) => {
                    let slot = &mut self.slots[s];
                    let started = slot.started;
                    slot.first_read_ns.get_or_insert_with(|| nanos_since(started));
                    self.request(s, page, seen)?;
                    if single {
                        self.flush()?;
                    }
                }
                Ok(Step::Explored) => {
                    if self.unflushed > 0 && self.queue.in_flight() <= self.unflushed {
                        self.flush()?;
                    }
                }
                Ok(Step::Wait) => break,
                Ok(Step::Elsewhere(page)) => {
                    self.release(s);
                    let QuerySlot { job, ref state, .. } = self.slots[s];
                    feed.ended(job, FeedOutcome::Elsewhere(page, state, &seen.view));
                    return Ok(1);
                }
                Ok(Step::Done) => {
                    self.slots[s].compute_ns += nanos_since(from);
                    self.finish(s, seen.source, feed);
                    return Ok(1);
                }
                Err(e) => return Ok(self.fail(s, e.into(), feed)),
            }
        }
        self.slots[s].compute_ns += nanos_since(from);
        Ok(0)
    }

    /// Whether nobody waits for what is under way, as the feed said when it was asked last.
    #[inline]
    fn is_given_up(&mut self, feed: &mut dyn Feed) -> bool {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS) {
            self.given_up = self.given_up || feed.gives_up();
        }
        self.given_up
    }

    /// A queue that broke leaves searches that nobody can end.
    fn check_sound(&self) -> Result<(), SearchError> {
        let left = self.slots.iter().any(|slot| slot.active);
        if left { Err(broken(IoError::Broken)) } else { Ok(()) }
    }

    fn finish(&mut self, s: usize, source: &dyn PageSource, feed: &mut dyn Feed) {
        let in_flight = self.slots.iter().filter(|slot| slot.active).count();
        self.release(s);
        let slot = &mut self.slots[s];
        let mut stats = slot.state.stats();
        stats.first_read_ns = slot.first_read_ns.unwrap_or_default();
        stats.compute_ns = slot.compute_ns;
        stats.latency_ns = nanos_since(slot.started);
        self.meter.ended(&stats, slot.among);
        source.ended(&stats, in_flight);
        let end = match slot.state.expansion() {
            Some(expansion) => FeedOutcome::Expanded(expansion, stats),
            None => FeedOutcome::Found(slot.state.hits(), stats, slot.state.params().k),
        };
        feed.ended(slot.job, end);
    }

    fn fail(&mut self, s: usize, why: SearchError, feed: &mut dyn Feed) -> usize {
        if !self.slots[s].active {
            return 0;
        }
        self.release(s);
        feed.ended(self.slots[s].job, FeedOutcome::Failed(why));
        1
    }

    /// Takes slot `s` out of everything that waits on its behalf.
    fn release(&mut self, s: usize) {
        self.slots[s].active = false;
        self.slots[s].touched = false;
        self.slots[s].under_way = None;
        self.backlog.retain(|&(waiting, _)| waiting != s);
        for read in self.reads.iter_mut().filter(|r| r.active) {
            read.waiters &= !(1 << s);
        }
    }

    /// Gets `page` for slot `s`: from memory, from a read under way, or by a read of its own.
    fn request(
        &mut self,
        s: usize,
        page: PageId,
        &SeenIndex { source, lease, ref view }: &SeenIndex<'_>,
    ) -> Result<(), SearchError> {
        let state = &mut self.slots[s].state;
        if let Some(bytes) = source.resident(lease, page) {
            let stats = state.stats_mut();
            stats.reads -= 1;
            stats.resident_pages += 1;
            state.receive(view, page, bytes);
            source.taken(self.slots[s].job, page, bytes);
            return Ok(());
        }
        state.stats_mut().bytes_read += source.page_bytes() as u64;
        // A query that asks twice gets the page twice.
        let joins = |r: &&mut ReadUnderWay| r.active && r.page == page && r.waiters & (1 << s) == 0;
        if let Some(read) = self.reads.iter_mut().find(joins) {
            read.waiters |= 1 << s;
            state.stats_mut().reads_shared += 1;
            return Ok(());
        }
        if !self.backlog.is_empty() || !self.push(s, page, source)? {
            self.backlog.push_back((s, page));
        }
        Ok(())
    }

    /// Pushes a read; false where the queue is full.
    fn push(
        &mut self,
        s: usize,
        page: PageId,
        source: &dyn PageSource,
    ) -> Result<bool, SearchError> {
        let Some(buffer) = self.queue.take_buffer() else { return Ok(false) };
        let tag = self.free_tags.pop().expect("as many tags as buffers");
        self.reads[tag as usize] = ReadUnderWay { page, buffer, waiters: 1 << s, active: true };
        self.meter.pushed(tag);
        let (device, offset) = source.locate(page);
        self.queue
            .push_read(device, offset, source.page_bytes(), buffer, u64::from(tag))
            .map_err(broken)?;
        self.unflushed += 1;
        Ok(true)
    }

    fn drain_backlog(&mut self, source: &dyn PageSource) -> Result<(), SearchError> {
        while let Some((s, page)) = self.backlog.pop_front() {
            if !self.push(s, page, source)? {
                self.backlog.push_front((s, page));
                break;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SearchError> {
        self.meter.started();
        self.unflushed = 0;
        self.queue.flush().map_err(broken)
    }
}

/// With several queries in flight, a round waits for this part of the reads under way.
const ROUND: usize = 8;

/// Steps between two times that the feed is asked whether anyone waits: some milliseconds.
const STEPS: u32 = 512;

/// Reads pushed but not submitted, above which a busy driver submits before it polls again.
const FLUSH_BUSY: usize = 8;

fn broken(e: IoError) -> SearchError {
    SearchError::Queue(e)
}
