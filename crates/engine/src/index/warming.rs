//! Warming: reads absent pages into memory ahead of searches, where there is room for them.
//!
//! A thread of low priority, which ends when every page is in memory, when memory is full, or with
//! the index; it begins again when a limit rises. It waits until all codes are there, since the
//! first searches need those sooner. Pages go first that were used most, then those where searches
//! begin, then all others as they lie.
//!
//! Searches go first: while one is under way, and for some milliseconds after, a few reads go out
//! in each, at most some 2,000 a second. A page that was warmed counts as used by nobody, so it
//! makes room for any that a search reads.
//!
//! A page that cannot be read or is damaged stays absent, and is reported to the search that
//! needs it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cache::PageCache;
use super::codes::StreamedCodes;
use super::dial::MemoryDial;
use super::pages::PageFiles;
use crate::graph::HeadIndex;
use crate::io::{Completion, IoError, Queue};
use crate::search::{CodeAccess, ConcurrentLoad};
use crate::types::{NodeId, PageId};

/// Reads in flight while nobody searches.
const DEPTH: usize = 16;
/// Reads that go out together beside searches, one such batch a tick.
const BESIDE: usize = 2;
const TICK: Duration = Duration::from_millis(1);
/// Ticks without a search until nobody is taken to search.
const QUIET_TICKS: u32 = 5;
/// Heat from which on pages are read in one pass, from the hottest down.
const LEVELS: [u8; 4] = [64, 16, 4, 1];
/// Niceness of the thread, of 19.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// What the thread needs of its index.
pub(super) struct Warmed {
    pub(super) pages: Arc<PageFiles>,
    pub(super) codes: Arc<StreamedCodes>,
    pub(super) head: Option<Arc<HeadIndex>>,
    pub(super) load: ConcurrentLoad,
    pub(super) dial: MemoryDial,
}

/// The warming of one index; its thread ends with this value.
pub(super) struct Warming {
    shared: Arc<WarmingShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// A forked child has no thread, and touches no lock that one may have held.
    process: u32,
}

struct WarmingShared {
    of: Warmed,
    order: Mutex<WarmingOrder>,
    /// Told when the order changes.
    changed: Condvar,
    under_way: AtomicBool,
    /// Pages that the last pass could not read.
    unreadable: AtomicU32,
}

/// What the thread is asked to do.
#[derive(Default)]
struct WarmingOrder {
    /// Look once more for what is absent.
    again: bool,
    stop: bool,
}

/// Why a pass ended before its last page.
enum PassEnd {
    Stopped,
    Full,
    Queue(IoError),
}

impl From<IoError> for PassEnd {
    fn from(error: IoError) -> Self {
        Self::Queue(error)
    }
}

impl Warming {
    pub(super) fn new(of: Warmed) -> Self {
        let shared = WarmingShared {
            of,
            order: Mutex::default(),
            changed: Condvar::new(),
            under_way: AtomicBool::new(false),
            unreadable: AtomicU32::new(0),
        };
        let (shared, thread) = (Arc::new(shared), Mutex::default());
        Self { shared, thread, process: std::process::id() }
    }

    /// Has absent pages read, where there is room for them. Waits for who ends the warming, so not to
    /// be called under a lease.
    pub(super) fn wake(&self) {
        #[cfg(debug_assertions)]
        assert!(!crate::search::has_lease(), "waits for a thread that may wait for its lease");
        if self.has_work() {
            self.start(lock(&self.thread));
        }
    }

    /// The same by a search, which may have a lease. False where somebody else is at it: then it is to
    /// be asked for again.
    pub(super) fn wake_at_once(&self) -> bool {
        if !self.has_work() {
            return true;
        }
        match self.thread.try_lock() {
            Ok(thread) => self.start(thread),
            Err(TryLockError::Poisoned(e)) => self.start(e.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }

    /// Whether there are absent pages, and room for them.
    fn has_work(&self) -> bool {
        let Some(cache) = self.shared.of.pages.cache.get() else { return false };
        let whole = cache.pages() == self.shared.of.pages.here();
        self.shared.of.dial.warms() && !whole && cache.has_room() && !self.is_forked()
    }

    fn start(&self, mut thread: MutexGuard<'_, Option<JoinHandle<()>>>) {
        {
            let mut order = lock(&self.shared.order);
            order.again = true;
            if self.is_under_way() {
                return;
            }
            self.shared.under_way.store(true, Ordering::Release);
        }
        join(thread.take());
        let shared = Arc::clone(&self.shared);
        let named = std::thread::Builder::new().name("pipeann-warming".into());
        *thread = named.spawn(move || run(&shared)).ok();
        if thread.is_none() {
            self.shared.under_way.store(false, Ordering::Release);
        }
    }

    /// Whether pages are being read ahead of searches.
    pub(super) fn is_under_way(&self) -> bool {
        self.shared.under_way.load(Ordering::Acquire)
    }

    /// Pages that could not be read when they were tried last.
    pub(super) fn unreadable(&self) -> u32 {
        self.shared.unreadable.load(Ordering::Relaxed)
    }

    /// Waits until nothing is under way; false where that takes longer than `at_most`.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        if self.is_forked() {
            return true;
        }
        let until = Instant::now() + at_most;
        let mut order = lock(&self.shared.order);
        while self.is_under_way() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // Looks again after a while: a thread that panics tells nobody.
            let waited = self.shared.changed.wait_timeout(order, left.min(100 * TICK));
            order = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Ends what is under way, and waits for it. It can be begun again.
    pub(super) fn end(&self) {
        if self.is_forked() {
            return;
        }
        #[cfg(debug_assertions)]
        assert!(
            std::thread::panicking() || !crate::search::has_lease(),
            "waits for a thread that may wait for its lease"
        );
        let mut thread = lock(&self.thread);
        lock(&self.shared.order).stop = true;
        self.shared.changed.notify_all();
        join(thread.take());
        *lock(&self.shared.order) = WarmingOrder::default();
    }

    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }
}

impl Drop for Warming {
    fn drop(&mut self) {
        self.end();
    }
}

/// A panic of the thread has been printed already; searches go on as before.
fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread {
        let _ = thread.join();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that nothing is under way any more, also where the thread panics.
struct WarmingUnderWay<'a>(&'a WarmingShared);

impl Drop for WarmingUnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.store(false, Ordering::Release);
        self.0.changed.notify_all();
    }
}

/// The body of the thread.
fn run(shared: &WarmingShared) {
    // Searches have the processor first. The number 0 means the thread that asks.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let mut under_way = Some(WarmingUnderWay(shared));
    loop {
        {
            let mut order = lock(&shared.order);
            if order.stop || !order.again {
                // Under the lock: whoever asks for more from here on starts another thread.
                drop(under_way.take());
                return;
            }
            order.again = false;
        }
        if let Err(PassEnd::Queue(error)) = shared.warm() {
            tracing::warn!("pages are not read ahead of searches: {error}");
        }
    }
}

impl WarmingShared {
    fn warm(&self) -> Result<(), PassEnd> {
        let Warmed { pages, codes, head, .. } = &self.of;
        while codes.is_streaming() && !codes.is_resident() {
            self.tick()?;
        }
        let Some(cache) = pages.cache.get() else { return Ok(()) };
        let mut pass = WarmingPass {
            shared: self,
            cache,
            queue: pages.backend.queue(&pages.queue_options(DEPTH))?,
            completions: Vec::with_capacity(DEPTH),
            used: self.of.dial.pages_used(),
            ticks: 0,
            unreadable: 0,
        };
        let all = || pages.all_here().map(PageId);
        for least in LEVELS {
            pass.bring(all().filter(|page| cache.heat().of(*page) >= least))?;
        }
        let begin = head.iter().flat_map(|head| head.nodes());
        let begin = begin.map(|node| pages.layout.page_of(NodeId(*node)));
        pass.bring(begin.filter(|page| pages.is_here(page.0)))?;
        pass.unreadable = 0;
        pass.bring(all())?;
        self.unreadable.store(pass.unreadable, Ordering::Relaxed);
        Ok(())
    }

    /// Waits a moment.
    fn tick(&self) -> Result<(), PassEnd> {
        let order = lock(&self.order);
        let waited = self.changed.wait_timeout_while(order, TICK, |order| !order.stop);
        let (order, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if order.stop { Err(PassEnd::Stopped) } else { Ok(()) }
    }

    fn is_stopped(&self) -> bool {
        lock(&self.order).stop
    }
}

/// One look through the pages.
struct WarmingPass<'a> {
    shared: &'a WarmingShared,
    cache: &'a PageCache,
    queue: Box<dyn Queue>,
    completions: Vec<Completion>,
    /// Pages that searches had used when it was looked last.
    used: u64,
    /// Ticks to go until nobody is taken to search.
    ticks: u32,
    unreadable: u32,
}

impl WarmingPass<'_> {
    /// Brings those of the pages into memory that are not there.
    fn bring(&mut self, pages: impl Iterator<Item = PageId>) -> Result<(), PassEnd> {
        let (shared, cache) = (self.shared, self.cache);
        let page_bytes = shared.of.pages.layout.page_bytes();
        let mut absent = pages.filter(|page| !cache.holds(*page));
        loop {
            let depth = self.depth()?;
            while self.queue.in_flight() < depth
                && let Some(page) = absent.next()
                && let Some(buffer) = self.queue.take_buffer()
            {
                let (device, offset) = shared.of.pages.locate(page);
                self.queue.push_read(device, offset, page_bytes, buffer, page.0.into())?;
            }
            if self.queue.in_flight() == 0 {
                return Ok(());
            }
            let mut arrived = std::mem::take(&mut self.completions);
            self.queue.wait_for(DEPTH / 2, &mut arrived)?;
            for read in arrived.drain(..) {
                self.keep(&read)?;
                self.queue.return_buffer(read.buffer);
            }
            self.completions = arrived;
        }
    }

    /// Reads that may be in flight now. Waits a tick where somebody searches.
    fn depth(&mut self) -> Result<usize, PassEnd> {
        let used = self.shared.of.dial.pages_used();
        if self.shared.of.load.searches() > 0 || used != self.used {
            self.ticks = QUIET_TICKS;
        }
        self.used = used;
        if self.ticks > 0 {
            self.ticks -= 1;
            self.shared.tick()?;
            return Ok(BESIDE);
        }
        if self.shared.is_stopped() { Err(PassEnd::Stopped) } else { Ok(DEPTH) }
    }

    /// Keeps a page that was read, if it is sound.
    fn keep(&mut self, read: &Completion) -> Result<(), PassEnd> {
        let pages = &self.shared.of.pages;
        let page = PageId(u32::try_from(read.tag).expect("reads are tagged with a page"));
        let bytes = self.queue.buffer(read.buffer);
        let sound = match &read.result {
            Ok(_) => pages.check(page, bytes),
            Err(error) => Err(pages.describe(page, error)),
        };
        if let Err(failure) = sound {
            self.unreadable += 1;
            tracing::warn!("a page is not read ahead of searches: {failure}");
            return Ok(());
        }
        // A search may have brought it meanwhile, or another node at which searches begin.
        if self.cache.holds(page) {
            return Ok(());
        }
        while !self.cache.fill(page, bytes) {
            if !self.cache.has_room() {
                return Err(PassEnd::Full);
            }
            // There is room for it as soon as nobody looks at what was there. Who does may wait for
            // whoever ends this thread.
            if !self.cache.settle_within(TICK) && self.shared.is_stopped() {
                return Err(PassEnd::Stopped);
            }
        }
        self.shared.of.dial.note_warmed();
        Ok(())
    }
}

#[cfg(test)]
#[path = "warming_tests.rs"]
mod tests;
