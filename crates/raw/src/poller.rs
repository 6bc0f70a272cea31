//! One thread for each device, which alone touches it.
//!
//! Each [`Port`](crate::port::Port) has a lane to every poller: a ring of requests and a ring of
//! answers. A poller goes round: what the device has finished goes to the lanes that asked, what the
//! lanes ask goes to the device, in turns. Where neither happens it spins, yields or sleeps, as it
//! was told ([`Idle`]).
//!
//! Invariants: a lane never has more requests out than its answers have room, which the port sees
//! to; what the device has no room for stays at the poller, and nothing is dropped; when the poller
//! ends, for whatever reason, every lane learns of it. It ends too where a lost device ends nothing of
//! what it has.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::bell::bell;
use crate::counts::{DeviceCounts, PollerCounters};
use crate::device::{
    Command, CommandDone, CommandRefused, DeviceAction, Geometry, RawDevice, Status,
};
use crate::lane::{Arrivals, PollerLane, Request};
use crate::patience::{AwakePollers, Patience};
use crate::silence::{AfterSilence, Silence};
use crate::sim::NullDev;
use crate::tally::OpTally;

/// How often a device is told that somebody is there.
const KEEP_ALIVE: Duration = Duration::from_millis(100);
/// Rounds between two looks at the clock.
const LOOK: u32 = 256;
/// Requests that the device is given before it is asked what has ended: a search goes on with its
/// first answers while the rest of what it asked for is under way.
const BURST: usize = 32;
/// Lanes of one poller at most: threads that search at the same time.
pub const MAX_LANES: usize = 1024;

/// What a poller does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Looks again at once: the whole core for the shortest delay.
    Spin,
    /// Lets others run first.
    Yield,
    /// Looks again for a while where a processor has nothing else to do, then sleeps until it is
    /// woken. Lets others run while the device works without telling when it has finished.
    Sleep,
}

impl Idle {
    /// What suits so many processors: spinning only where each poller and as many search threads
    /// have one to themselves.
    pub fn for_processors(processors: usize, pollers: usize) -> Self {
        if processors >= 4 && processors > 2 * pollers { Self::Spin } else { Self::Sleep }
    }
}

/// What ports and the poller share.
pub(crate) struct Office {
    name: Arc<str>,
    geometry: Geometry,
    /// Requests pushed, lanes brought, the end announced: all that the poller has to look at.
    work: Arrivals,
    mail: Mutex<Vec<PollerLane>>,
    /// There may be some.
    has_mail: AtomicBool,
    closing: AtomicBool,
    /// Nothing is answered any more.
    ended: AtomicBool,
    /// The device is used no more.
    lost: AtomicBool,
    /// The same of any device of the stripe, for whoever looks before each read.
    any_lost: Arc<AtomicBool>,
    lanes: AtomicUsize,
    counts: PollerCounters,
}

impl Office {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Brings a lane; not where there are too many.
    pub(crate) fn enter(&self, lane: PollerLane) -> bool {
        if self.lanes.fetch_add(1, Ordering::Relaxed) >= MAX_LANES {
            self.lanes.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.mail.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
        self.has_mail.store(true, Ordering::Release);
        self.work.add(1);
        if self.has_ended() {
            // The poller has looked into its mail for the last time, perhaps before this.
            self.close_mail();
        }
        true
    }

    /// Closes lanes that nobody will serve.
    fn close_mail(&self) {
        let lanes = std::mem::take(&mut *self.mail.lock().unwrap_or_else(PoisonError::into_inner));
        close(lanes.into_iter().map(Some).collect());
    }

    /// Tells of requests that were pushed, or of a lane that was closed.
    pub(crate) fn call(&self, news: u64) {
        self.work.add(news);
    }

    pub(crate) fn counts(&self) -> DeviceCounts {
        self.counts.now()
    }

    /// Counts a read that was done from a file, since the device is lost; the first is told of.
    pub(crate) fn count_from_file(&self) {
        if self.counts.count_from_file() == 0 {
            tracing::warn!("{}: what was copied to it is read from files from now on", self.name);
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.any_lost.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}

/// What the pollers of a stripe share.
#[derive(Clone)]
pub(crate) struct AllPollers {
    /// A device is used no more.
    pub(crate) any_lost: Arc<AtomicBool>,
    /// Those that stay awake.
    pub(crate) awake: Arc<AwakePollers>,
}

/// How a poller runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollerOptions {
    /// What it does when there is nothing to do.
    pub(crate) idle: Idle,
    /// The processor that it is pinned to, if any.
    pub(crate) processor: Option<usize>,
}

/// A running poller; dropping it ends the thread, after what the device holds has ended or is given up.
pub(crate) struct Poller {
    pub(crate) office: Arc<Office>,
    started_in: u32,
    thread: Option<JoinHandle<()>>,
}

impl Poller {
    pub(crate) fn start(
        number: usize,
        device: Box<dyn RawDevice>,
        options: PollerOptions,
        all: &AllPollers,
    ) -> std::io::Result<Self> {
        let bell = match device.bell() {
            Some(bell) => bell,
            None => bell()?,
        };
        let office = Arc::new(Office {
            name: Arc::from(device.name()),
            geometry: device.geometry(),
            work: Arrivals { tally: OpTally::new(), bell },
            mail: Mutex::default(),
            has_mail: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            any_lost: Arc::clone(&all.any_lost),
            lanes: AtomicUsize::new(0),
            counts: PollerCounters::default(),
        });
        let shared = Arc::clone(&office);
        let patience = Patience::new(Arc::clone(&all.awake));
        let thread = std::thread::Builder::new().name(format!("raw-poller-{number}"));
        let thread = thread.spawn(move || {
            if let Some(processor) = options.processor {
                crate::pinning::pin(&[processor]);
            }
            let _ending = Ending(Arc::clone(&shared));
            Rounds::new(shared, device, options.idle, patience).run();
        })?;
        Ok(Self { office, started_in: std::process::id(), thread: Some(thread) })
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        if self.started_in != std::process::id() {
            // A forked child: the thread stayed with the parent.
            std::mem::forget(self.thread.take());
            return;
        }
        self.office.closing.store(true, Ordering::SeqCst);
        self.office.work.add(1);
        // Rung in any case: an end is worth a needless look.
        self.office.work.bell.ring();
        if let Some(thread) = self.thread.take() {
            // A panic was printed already, and the lanes have learned of it.
            let _ = thread.join();
        }
    }
}

/// Says that a poller has ended, however that came about.
struct Ending(Arc<Office>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        // Those that the poller had were closed before.
        self.0.close_mail();
    }
}

/// Closes lanes and wakes whoever waits for them.
fn close(lanes: Vec<Option<PollerLane>>) {
    for lane in lanes.into_iter().flatten() {
        let owner = Arc::clone(&lane.owner);
        drop(lane);
        owner.tally.add(1 << 32);
        owner.bell.ring();
    }
}

/// The loop of a poller.
struct Rounds {
    office: Arc<Office>,
    device: Box<dyn RawDevice>,
    idle: Idle,
    patience: Patience,
    /// By number; those in between were closed.
    lanes: Vec<Option<PollerLane>>,
    /// Requests that the device had no room for, oldest first.
    held: VecDeque<(u32, Request)>,
    /// The lane that is asked first.
    turn: usize,
    at_device: usize,
    /// Whether the device ends what it has by ringing the bell.
    rings: bool,
    gone: Option<Status>,
    silence: Silence,
    /// The device is lost, and what it has will not end.
    given_up: bool,
}

impl Rounds {
    fn new(
        office: Arc<Office>,
        device: Box<dyn RawDevice>,
        idle: Idle,
        patience: Patience,
    ) -> Self {
        let rings = device.bell().is_some();
        Self {
            office,
            device,
            idle,
            patience,
            lanes: Vec::new(),
            held: VecDeque::new(),
            turn: 0,
            at_device: 0,
            rings,
            gone: None,
            silence: Silence::default(),
            given_up: false,
        }
    }

    fn run(&mut self) {
        let mut done = Vec::new();
        let (mut rounds, mut kept) = (0_u32, Instant::now());
        while !self.given_up {
            let seen = self.office.work.tally.count();
            self.take_mail();
            let mut worked = self.finish(&mut done);
            worked |= self.submit();
            // What was submitted may have ended already.
            worked |= self.finish(&mut done);
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(LOOK) && kept.elapsed() >= KEEP_ALIVE {
                kept = Instant::now();
                self.keep_alive();
            }
            if worked {
                self.patience.renew();
                continue;
            }
            self.remove_closed();
            let closing = self.office.closing.load(Ordering::SeqCst);
            if closing && self.at_device == 0 && self.held.is_empty() {
                return;
            }
            let idle = self.idle;
            match idle {
                Idle::Spin => std::hint::spin_loop(),
                Idle::Yield => std::thread::yield_now(),
                Idle::Sleep if closing => std::thread::yield_now(),
                Idle::Sleep if self.is_patient() || (self.at_device > 0 && !self.rings) => {
                    std::thread::yield_now();
                }
                Idle::Sleep => {
                    let work = &self.office.work;
                    let most = self.device.needs_keep_alive().then_some(KEEP_ALIVE);
                    work.tally.rest(seen + 1, || work.bell.rest(most));
                    if most.is_some() && kept.elapsed() >= KEEP_ALIVE {
                        kept = Instant::now();
                        self.keep_alive();
                    }
                }
            }
        }
    }

    /// Whether something may come soon, and nobody else needs the processor meanwhile.
    fn is_patient(&mut self) -> bool {
        let now = Instant::now();
        let lanes = self.lanes.iter_mut().flatten();
        let searching = lanes.map(|lane| usize::from(lane.is_busy(now))).sum();
        self.patience.lasts(now, searching)
    }

    fn take_mail(&mut self) {
        // The lock is looked for only where there may be something: lanes come seldom.
        if !self.office.has_mail.load(Ordering::Relaxed) {
            return;
        }
        self.office.has_mail.store(false, Ordering::Release);
        let mut mail = self.office.mail.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in mail.drain(..) {
            match self.lanes.iter_mut().find(|place| place.is_none()) {
                Some(place) => *place = Some(lane),
                None => self.lanes.push(Some(lane)),
            }
        }
    }

    /// Hands on what has ended.
    fn finish(&mut self, done: &mut Vec<CommandDone>) -> bool {
        if self.at_device == 0 {
            return false;
        }
        self.device.poll(done);
        if done.is_empty() {
            return false;
        }
        self.at_device -= done.len();
        self.silence.heard();
        for CommandDone { tag, result } in done.drain(..) {
            self.office.counts.ended(result);
            if let Err(why) = result {
                self.judge(why);
            }
            let lane = self.lanes[(tag >> 32) as usize].as_mut();
            lane.expect("a lane stays while it has requests out").reply(tag as u32, result);
        }
        self.lanes.iter_mut().flatten().for_each(PollerLane::tell);
        true
    }

    /// Gives the device what it has room for. Whether there was something.
    fn submit(&mut self) -> bool {
        let mut some = false;
        while let Some(&(lane, request)) = self.held.front() {
            if !self.give(lane, &request) {
                return some;
            }
            self.held.pop_front();
            some = true;
        }
        let lanes = self.lanes.len();
        let (mut empty, mut given) = (0, 0);
        while empty < lanes && given < BURST {
            let at = self.turn % lanes;
            self.turn = at + 1;
            let popped = self.lanes[at].as_mut().and_then(|lane| {
                let request = lane.requests.pop()?;
                lane.out += 1;
                Some(request)
            });
            let Some(request) = popped else {
                empty += 1;
                continue;
            };
            (empty, given, some) = (0, given + 1, true);
            if !self.give(at as u32, &request) {
                self.held.push_back((at as u32, request));
                break;
            }
        }
        some
    }

    /// Whether the device took a request, or it was answered otherwise.
    #[expect(unsafe_code, reason = "memory is handed to the device by pointer")]
    fn give(&mut self, lane: u32, request: &Request) -> bool {
        let Request { action, offset, bytes, memory, tag } = *request;
        let refused = |why, this: &mut Self| {
            let lane = this.lanes[lane as usize].as_mut().expect("as above");
            lane.reply(tag, Err(why));
            lane.tell();
        };
        if let Some(why) = self.gone {
            refused(why, self);
            return true;
        }
        let whose = u64::from(lane) << 32 | u64::from(tag);
        let given = match action {
            DeviceAction::Flush => self.device.flush(whose),
            _ => {
                let command = Command { action, offset, bytes, memory, tag: whose };
                // SAFETY: the port lends the memory until the reply, which follows the device's end.
                unsafe { self.device.submit(&command) }
            }
        };
        match given {
            Ok(()) => {
                self.at_device += 1;
                self.office.counts.asked(action, bytes);
                true
            }
            Err(CommandRefused::Failed(why)) => {
                self.judge(why);
                refused(why, self);
                true
            }
            Err(CommandRefused::Full) => false,
        }
    }

    fn keep_alive(&mut self) {
        if self.gone.is_none()
            && let Err(why) = self.device.keep_alive()
        {
            self.lose(why);
        }
        if !self.device.needs_keep_alive() {
            // The kernel ends what it has.
            return;
        }
        match self.silence.look(self.at_device, self.gone.is_some()) {
            AfterSilence::Waits => {}
            AfterSilence::Lost => self.lose(Status::Silent),
            AfterSilence::GivenUp => self.given_up = true,
        }
    }

    /// Looks whether a failure is that of the device as a whole.
    fn judge(&mut self, why: Status) {
        if why.is_loss() && self.gone.is_none() {
            self.lose(why);
        }
    }

    /// The device is used no more. Known to all before anybody is answered by it.
    fn lose(&mut self, why: Status) {
        tracing::error!("{}: {why}; it is used no more", self.office.name);
        self.office.lose();
        self.gone = Some(why);
    }

    /// Forgets lanes whose port is gone and that have nothing out.
    fn remove_closed(&mut self) {
        for place in &mut self.lanes {
            if place.as_ref().is_some_and(|lane| lane.out == 0 && lane.requests.is_closed()) {
                *place = None;
                self.office.lanes.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        // A poller that fails is as good as a device that does.
        self.office.lose();
        close(std::mem::take(&mut self.lanes));
        if self.given_up {
            let (name, left) = (&self.office.name, self.at_device);
            tracing::error!("{name}: {left} commands do not end; their memory is kept for ever");
            // Closing it could wait for them, and it may write to that memory.
            let device: Box<dyn RawDevice> = Box::<NullDev>::default();
            std::mem::forget(std::mem::replace(&mut self.device, device));
        }
    }
}
