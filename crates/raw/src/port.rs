//! A thread's way to all devices: requests out, answers in, reads split over the stripe and joined.
//!
//! A port belongs to one thread at a time. It never touches a device: it pushes requests into the
//! rings of the pollers, and takes answers out of others. Where a ring is full, requests wait here.
//!
//! Invariant: for each lane, requests in the ring, at the poller and answered but not taken are
//! never more than the ring has room for, so a poller can always answer.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::bell::Bell;
use crate::device::{DeviceAction, Status};
use crate::lane::{Arrivals, PollerLane, Reply, Request};
use crate::poller::Office;
use crate::ring::{Consumer, Producer, ring};
use crate::stripe::Stripe;

/// A failed transfer: which device, where on it, and what it said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{device}: {action} of {bytes} bytes at LBA {lba} failed: {status}")]
pub struct DeviceError {
    /// Name of the device.
    pub device: Arc<str>,
    /// What was asked for.
    pub action: DeviceAction,
    /// First block of the command.
    pub lba: u64,
    /// Length of the command.
    pub bytes: u32,
    /// What the device said.
    pub status: Status,
}

/// The end of an operation.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What the caller passed.
    pub token: u64,
    /// How it ended: of several pieces the first failure.
    pub result: Result<(), DeviceError>,
}

/// Where an operation goes.
#[derive(Clone, Copy, Debug)]
pub enum PortTarget {
    /// To the stripe.
    Stripe,
    /// To one device, past the stripe.
    Device(usize),
}

/// The port's end of a lane.
struct PortLine {
    office: Arc<Office>,
    requests: Producer<Request>,
    replies: Consumer<Reply>,
    /// For which the ring had no room, or that are noted only.
    waiting: VecDeque<Request>,
    /// How many of those that wait, from the front, were started.
    started: usize,
    out: usize,
    room: usize,
}

impl PortLine {
    /// Gives the poller what was started, as far as its ring has room.
    fn advance(&mut self) {
        let mut news = 0;
        while self.started > 0
            && self.out < self.room
            && let Some(request) = self.waiting.front()
            && self.requests.push(*request).is_ok()
        {
            self.waiting.pop_front();
            (self.started, self.out, news) = (self.started - 1, self.out + 1, news + 1);
        }
        if news > 0 {
            self.office.call(news);
        }
    }
}

/// An operation under way.
#[derive(Clone)]
struct PortOperation {
    token: u64,
    left: u32,
    failed: Option<DeviceError>,
}

/// A piece under way.
#[derive(Clone, Copy)]
struct CommandPart {
    operation: u32,
    device: u32,
    action: DeviceAction,
    offset: u64,
    bytes: u32,
}

/// See the module's description.
pub struct Port {
    lines: Vec<PortLine>,
    stripe: Stripe,
    arrivals: Arc<Arrivals>,
    /// Replies taken so far.
    taken: u64,
    operations: Vec<PortOperation>,
    free_operations: Vec<u32>,
    parts: Vec<CommandPart>,
    free_parts: Vec<u32>,
    under_way: usize,
    /// A poller ended with requests of this port at its device.
    lost: bool,
}

/// A port cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The system has no event file or the like.
    #[error("cannot make a port to the devices: {0}")]
    System(#[from] std::io::Error),
    /// As many threads search as a poller serves.
    #[error("more than {} threads use the devices at once", crate::poller::MAX_LANES)]
    TooMany,
}

impl Port {
    pub(crate) fn new(
        offices: &[Arc<Office>],
        stripe: Stripe,
        room: usize,
        bell: Arc<dyn Bell>,
    ) -> Result<Self, PortError> {
        let arrivals = Arrivals::new(bell);
        let room = room.clamp(1, 4096).next_power_of_two();
        let mut lines = Vec::with_capacity(offices.len());
        for office in offices {
            let (requests, theirs) = ring(room);
            let (answers, replies) = ring(room);
            if !office.enter(PollerLane::new(theirs, answers, Arc::clone(&arrivals))) {
                return Err(PortError::TooMany);
            }
            let (office, waiting) = (Arc::clone(office), VecDeque::with_capacity(room));
            lines.push(PortLine { office, requests, replies, waiting, started: 0, out: 0, room });
        }
        Ok(Self {
            lines,
            stripe,
            arrivals,
            taken: 0,
            operations: Vec::with_capacity(room),
            free_operations: Vec::with_capacity(room),
            parts: Vec::with_capacity(room),
            free_parts: Vec::with_capacity(room),
            under_way: 0,
            lost: false,
        })
    }

    /// Operations whose answer was not taken yet.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Whether a device may still write to memory that was lent: it has to be kept for ever then.
    pub fn lost(&self) -> bool {
        self.lost
    }

    /// Notes a transfer. [`flush`](Self::flush) starts it.
    ///
    /// # Safety
    /// `memory` is valid for `bytes`, comes from the devices' [`Memory`](crate::memory::Memory), and
    /// is used by nobody else until the answer was taken; where the port is [`lost`](Self::lost), for
    /// ever.
    #[expect(unsafe_code, reason = "memory is lent by pointer")]
    pub unsafe fn push(
        &mut self,
        action: DeviceAction,
        target: PortTarget,
        offset: u64,
        bytes: usize,
        memory: *mut u8,
        token: u64,
    ) {
        let operation = self.operation(token);
        let mut parts = 0;
        let mut part = |this: &mut Self, device: usize, from: u64, at: u64, length: u64| {
            let most = u64::from(this.lines[device].office.geometry().max_transfer_bytes);
            let mut cut = 0;
            while cut < length {
                let bytes = (length - cut).min(most) as u32;
                // SAFETY: pieces lie within the range.
                let memory = unsafe { memory.add((at + cut) as usize) };
                this.note(operation, device, action, from + cut, bytes, memory);
                (cut, parts) = (cut + u64::from(bytes), parts + 1);
            }
        };
        match target {
            PortTarget::Device(device) => part(self, device, offset, 0, bytes as u64),
            PortTarget::Stripe => {
                let stripe = self.stripe;
                for piece in stripe.pieces(offset, bytes as u64) {
                    part(self, piece.device, piece.offset, piece.at, piece.bytes);
                }
            }
        }
        self.operations[operation as usize].left = parts;
    }

    /// Notes a flush of all devices.
    pub fn push_sync(&mut self, token: u64) {
        let operation = self.operation(token);
        for device in 0..self.lines.len() {
            self.note(operation, device, DeviceAction::Flush, 0, 0, std::ptr::null_mut());
        }
        self.operations[operation as usize].left = self.lines.len() as u32;
    }

    fn operation(&mut self, token: u64) -> u32 {
        self.under_way += 1;
        let fresh = PortOperation { token, left: 0, failed: None };
        match self.free_operations.pop() {
            Some(at) => {
                self.operations[at as usize] = fresh;
                at
            }
            None => {
                self.operations.push(fresh);
                (self.operations.len() - 1) as u32
            }
        }
    }

    fn note(
        &mut self,
        operation: u32,
        device: usize,
        action: DeviceAction,
        offset: u64,
        bytes: u32,
        memory: *mut u8,
    ) {
        let part = CommandPart { operation, device: device as u32, action, offset, bytes };
        let tag = match self.free_parts.pop() {
            Some(tag) => {
                self.parts[tag as usize] = part;
                tag
            }
            None => {
                self.parts.push(part);
                (self.parts.len() - 1) as u32
            }
        };
        self.lines[device].waiting.push_back(Request { action, offset, bytes, memory, tag });
    }

    /// Starts what is noted; what a poller's ring has no room for follows when it has.
    pub fn flush(&mut self) {
        for line in &mut self.lines {
            line.started = line.waiting.len();
            line.advance();
        }
    }

    /// Appends the operations that have ended, and goes on with what waited for room.
    pub fn poll(&mut self, out: &mut Vec<Answer>) {
        for line in 0..self.lines.len() {
            while let Some(Reply { tag, result }) = self.lines[line].replies.pop() {
                self.lines[line].out -= 1;
                self.taken += 1;
                self.end_part(tag, result, out);
            }
            if self.lines[line].out > 0 || !self.lines[line].waiting.is_empty() {
                if self.lines[line].replies.is_closed() {
                    self.fail_line(line, out);
                } else {
                    self.lines[line].advance();
                }
            }
        }
    }

    fn end_part(&mut self, tag: u32, result: Result<(), Status>, out: &mut Vec<Answer>) {
        let part = self.parts[tag as usize];
        self.free_parts.push(tag);
        let operation = &mut self.operations[part.operation as usize];
        if let (Err(status), None) = (result, &operation.failed) {
            let office = &self.lines[part.device as usize].office;
            let lba = part.offset / u64::from(office.geometry().lba_bytes);
            let (device, action, bytes) = (Arc::clone(office.name()), part.action, part.bytes);
            operation.failed = Some(DeviceError { device, action, lba, bytes, status });
        }
        operation.left -= 1;
        if operation.left == 0 {
            let result = operation.failed.take().map_or(Ok(()), Err);
            out.push(Answer { token: operation.token, result });
            self.free_operations.push(part.operation);
            self.under_way -= 1;
        }
    }

    /// Ends what a poller that is no more has not answered.
    fn fail_line(&mut self, line: usize, out: &mut Vec<Answer>) {
        // What it answered before it ended was pushed before the ring closed.
        while let Some(Reply { tag, result }) = self.lines[line].replies.pop() {
            self.lines[line].out -= 1;
            self.end_part(tag, result, out);
        }
        self.lost |= self.lines[line].out > 0;
        let ended = &mut self.lines[line];
        (ended.out, ended.started) = (0, 0);
        ended.waiting.clear();
        let open: Vec<u32> = (0..self.parts.len() as u32)
            .filter(|tag| self.parts[*tag as usize].device as usize == line)
            .filter(|tag| !self.free_parts.contains(tag))
            .collect();
        for tag in open {
            self.end_part(tag, Err(Status::Gone), out);
        }
    }

    /// Starts what is noted and sleeps until operations have ended, about `least` of them, or its
    /// bell was rung and `woken` says so. Where nothing is under way it returns at once.
    pub fn wait(&mut self, least: usize, woken: &mut dyn FnMut() -> bool, out: &mut Vec<Answer>) {
        self.flush();
        let before = out.len();
        loop {
            self.poll(out);
            if out.len() > before || self.under_way == 0 || woken() {
                return;
            }
            self.rest(least, || self.arrivals.bell.rest(None));
        }
    }

    /// Sleeps by `sleep`, which the bell ends, unless about `least` operations have ended since
    /// answers were last taken.
    pub fn rest(&self, least: usize, sleep: impl FnOnce()) {
        let most: usize = self.lines.iter().map(|line| line.out).sum();
        let until = self.taken + least.clamp(1, most.max(1)) as u64;
        self.arrivals.tally.rest(until, sleep);
    }
}

impl Port {
    /// Forgets what no poller has, and waits for the rest: devices write to memory that was lent.
    pub fn settle(&mut self) {
        for line in &mut self.lines {
            line.waiting.clear();
            line.started = 0;
        }
        let mut out = Vec::new();
        loop {
            self.poll(&mut out);
            let left: usize = self.lines.iter().map(|line| line.out).sum();
            if left == 0 {
                break;
            }
            self.rest(1, || self.arrivals.bell.rest(None));
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.settle();
        for line in &mut self.lines {
            // Closed first, so that the poller sees it when it looks.
            line.requests = ring(1).0;
            line.office.call(1);
        }
    }
}
