//! Memory for resident pages: frames, shared by the caches of successive generations.
//!
//! Address space is taken for every page that may come, memory as frames are granted and used.
//! Frames are used from the first on, so that memory is given back from the end.
//!
//! Invariants:
//! - a frame is written only by a thread that [`FreeFrames`] gave it to, before a cache leads to it;
//! - a frame that no cache leads to any more is retired, and handed out again when the leases have
//!   ended under which somebody may still read it.
#![expect(unsafe_code, reason = "frames are written by one thread, then read by many")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::io::AlignedBuf;
use crate::memory::Reservation;
use crate::search::{EpochGuard, EpochGuards};

/// See the module's description.
pub(super) struct Frames {
    bytes: AlignedBuf,
    page_bytes: usize,
    /// Caches that lead to a frame.
    holders: Box<[AtomicU32]>,
    leases: EpochGuards,
    pool: Mutex<FreeFrames>,
    /// Held by who grows or shrinks.
    resizing: Mutex<()>,
}

/// Which frames have no page.
pub(super) struct FreeFrames {
    /// Frames that memory is reserved for: the first ones.
    granted: u32,
    /// Frames from here on were never used.
    untouched: u32,
    free: Vec<u32>,
    /// Frames with the epoch in which the last cache let go of them.
    retired: VecDeque<(u32, u64)>,
    /// Frames that pages have left to others which have not come yet.
    floating: usize,
    /// Frames without a page that are being given back.
    leaving: Vec<u32>,
    /// Where the search for a page to give up goes on.
    pub(super) hand: u32,
    held: Vec<Reservation>,
}

impl Frames {
    /// `granted` frames whose memory is `held`, and address space for up to `room` of them where
    /// the system has it.
    pub(super) fn new(page_bytes: usize, granted: u32, room: u32, held: Reservation) -> Self {
        let sparse = |frames: u32| AlignedBuf::sparse(frames as usize * page_bytes);
        let (bytes, room) = match sparse(room.max(granted)) {
            Ok(bytes) => (bytes, room.max(granted)),
            Err(_) => (AlignedBuf::zeroed(granted as usize * page_bytes), granted),
        };
        let pool = FreeFrames {
            granted: 0,
            untouched: 0,
            free: Vec::new(),
            retired: VecDeque::new(),
            floating: 0,
            leaving: Vec::new(),
            hand: 0,
            held: Vec::new(),
        };
        let frames = Self {
            bytes,
            page_bytes,
            holders: (0..room).map(|_| AtomicU32::new(0)).collect(),
            leases: EpochGuards::default(),
            pool: Mutex::new(pool),
            resizing: Mutex::default(),
        };
        frames.grow(granted, held);
        frames
    }

    pub(super) fn leases(&self) -> &EpochGuards {
        &self.leases
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    pub(super) fn pool(&self) -> MutexGuard<'_, FreeFrames> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`pool`](Self::pool), where no other thread is at it.
    pub(super) fn pool_at_once(&self) -> Option<MutexGuard<'_, FreeFrames>> {
        match self.pool.try_lock() {
            Ok(pool) => Some(pool),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Frames that memory is reserved for.
    pub(super) fn granted(&self) -> u32 {
        self.pool().granted()
    }

    /// Frames that there is address space for.
    pub(super) fn room(&self) -> u32 {
        self.holders.len() as u32
    }

    /// The bytes of a frame that a cache has led to under this lease.
    #[inline]
    pub(super) fn read<'p>(&'p self, lease: &'p EpochGuard<'_>, frame: u32) -> Option<&'p [u8]> {
        if !lease.is_on(&self.leases) {
            return None;
        }
        let at = frame as usize * self.page_bytes;
        // SAFETY: the frame's number was published after its bytes were written, and they are not
        // written again before two epochs have passed, which the lease does not let them; `frame`
        // is one of the frames allocated.
        Some(unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().add(at), self.page_bytes) })
    }

    /// Writes a frame that was taken from the pool, which has its first holder then.
    pub(super) fn write(&self, frame: u32, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.page_bytes, "a whole page");
        assert_eq!(self.holders[frame as usize].fetch_add(1, Ordering::SeqCst), 0, "free before");
        let at = frame as usize * self.page_bytes;
        // SAFETY: `frame` was handed to this thread alone and lies within the allocation; no cache
        // leads to it yet, and the leases of those who read it before have ended.
        unsafe {
            let to = self.bytes.as_ptr().add(at).cast_mut();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, self.page_bytes);
        }
    }

    /// Counts a further holder of a frame that has one, which keeps it meanwhile.
    pub(super) fn share(&self, frame: u32) {
        self.holders[frame as usize].fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn is_shared(&self, frame: u32) -> bool {
        self.holders[frame as usize].load(Ordering::SeqCst) > 1
    }

    /// Takes a holder off a frame to which its cache does not lead any more.
    pub(super) fn release(&self, frame: u32, pool: &mut FreeFrames) {
        if self.holders[frame as usize].fetch_sub(1, Ordering::SeqCst) == 1 {
            pool.retired.push_back((frame, self.leases.epoch()));
        }
    }

    /// Has memory for `more` frames, which is `held`, as far as there is address space for them.
    pub(super) fn grow(&self, more: u32, held: Reservation) {
        let _alone = self.alone();
        let mut pool = self.pool();
        let granted = pool.granted.saturating_add(more).min(self.room());
        let (from, to) = (pool.granted as usize, granted as usize);
        self.bytes.use_densely(from * self.page_bytes..to * self.page_bytes);
        pool.granted = granted;
        pool.held.push(held);
    }

    /// Leaves `granted` frames, and gives the memory of the others back. `let_go` makes the cache
    /// of now lead to none of the latter; those of older generations end with their searches.
    /// Waits for all who look at pages at the moment: without end, where the caller has no lease,
    /// or as long as its `patience` lasts. Whether it is done; else all frames stay.
    pub(super) fn shrink(
        &self,
        granted: u32,
        patience: Option<Duration>,
        let_go: impl FnOnce(&mut FreeFrames),
    ) -> bool {
        let until = patience.map(|patience| Instant::now() + patience);
        let _alone = self.alone();
        let before = {
            let mut pool = self.pool();
            let before = pool.granted;
            pool.granted = granted.min(before);
            pool.keep_below();
            before
        };
        let from = granted.min(before) as usize;
        let beyond = &self.holders[from..before as usize];
        let nobody = || beyond.iter().all(|holders| holders.load(Ordering::SeqCst) == 0);
        // Who was given a frame has a lease until a cache leads to it.
        let mut done = self.wait_for_leases(until);
        if done {
            let_go(&mut self.pool());
            done = wait_until(until, nobody) && self.wait_for_leases(until);
        }
        let mut pool = self.pool();
        let mut leaving = std::mem::take(&mut pool.leaving);
        if !done {
            pool.granted = before;
            pool.free.append(&mut leaving);
            return false;
        }
        pool.retired.retain(|&(frame, _)| frame < granted);
        pool.untouched = pool.untouched.min(granted);
        pool.floating = pool.floating.min(pool.free.len() + pool.retired.len());
        let range = from * self.page_bytes..before as usize * self.page_bytes;
        pool.give_up(range.len() as u64);
        // SAFETY: frames from `granted` on have no holder, nobody has a lease from when they had
        // one, and none is handed out before they are granted again, which waits for this.
        unsafe { self.bytes.give_back(range) };
        true
    }

    fn alone(&self) -> MutexGuard<'_, ()> {
        self.resizing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the leases of now have ended; false where that takes longer.
    pub(super) fn wait_for_leases(&self, until: Option<Instant>) -> bool {
        #[cfg(debug_assertions)]
        assert!(!crate::search::has_lease(), "waits for its own lease");
        let after = self.leases.epoch() + 2;
        wait_until(until, || self.leases.advance() >= after)
    }
}

/// Searches hold leases and frames for moments, so this does not wait long.
fn wait_until(until: Option<Instant>, mut is_so: impl FnMut() -> bool) -> bool {
    while !is_so() {
        if until.is_some_and(|until| Instant::now() >= until) {
            return false;
        }
        std::thread::park_timeout(Duration::from_micros(200));
    }
    true
}

impl FreeFrames {
    /// Frames that memory is reserved for.
    pub(super) fn granted(&self) -> u32 {
        self.granted
    }

    /// Whether a frame has no page and is not left to one that displaced another, in an index of so
    /// many pages.
    pub(super) fn has_room(&self, pages: usize) -> bool {
        let promised = if self.granted as usize >= pages { 0 } else { self.floating };
        self.untouched < self.granted || self.free.len() + self.retired.len() > promised
    }

    /// A frame that was never used.
    pub(super) fn take_untouched(&mut self) -> Option<u32> {
        let frame = self.untouched;
        (frame < self.granted).then(|| {
            self.untouched += 1;
            frame
        })
    }

    /// A frame that nobody reads any more.
    pub(super) fn take_free(&mut self, leases: &EpochGuards) -> Option<u32> {
        if let Some(&(_, since)) = self.retired.front()
            && leases.advance() >= since + 2
        {
            let epoch = leases.epoch();
            while let Some((frame, _)) = self.retired.pop_front_if(|(_, since)| *since + 2 <= epoch)
            {
                let list = if frame < self.granted { &mut self.free } else { &mut self.leaving };
                list.push(frame);
            }
        }
        self.free.pop()
    }

    /// Hands out no frame any more that memory is not reserved for.
    fn keep_below(&mut self) {
        let granted = self.granted;
        self.leaving.extend(self.free.extract_if(.., |frame| *frame >= granted));
    }

    /// Gives back reserved memory of frames.
    fn give_up(&mut self, mut bytes: u64) {
        while let Some(held) = self.held.last_mut().filter(|_| bytes > 0) {
            let part = bytes.min(held.bytes());
            held.give_back(part);
            bytes -= part;
            if held.bytes() == 0 {
                self.held.pop();
            }
        }
    }

    /// Puts back a frame that was taken and not written.
    pub(super) fn put_back(&mut self, frame: u32) {
        self.free.push(frame);
    }

    /// Whether all frames are in use but those that pages have left to others. One frame has been
    /// taken and may be put back.
    pub(super) fn is_short(&self) -> bool {
        self.free.len() + self.retired.len() < self.floating
    }

    /// Whether a page may leave its frame to one that comes later.
    pub(super) fn may_float(&self) -> bool {
        let most = (self.granted as usize / 64).clamp(usize::from(self.granted > 1), 64);
        self.floating < most
    }

    /// Notes that a page has left its frame; `taken` says that another came into one left before.
    pub(super) fn note_displaced(&mut self, taken: bool) {
        self.floating += usize::from(!taken);
    }
}
