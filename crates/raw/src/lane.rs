//! What goes between a port and a poller: requests one way, replies the other.

use std::sync::Arc;
use std::time::Instant;

use crate::bell::Bell;
use crate::device::{DeviceAction, Status};
use crate::patience::PATIENCE;
use crate::ring::{Consumer, Producer};
use crate::tally::OpTally;

/// A request of a port. The tag is the port's.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) action: DeviceAction,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) memory: *mut u8,
    pub(crate) tag: u32,
}

// SAFETY: the memory is lent until the answer has come, by whoever made the request.
#[expect(unsafe_code, reason = "a request carries a pointer to the poller")]
unsafe impl Send for Request {}

/// How a request ended.
#[derive(Clone, Copy)]
pub(crate) struct Reply {
    pub(crate) tag: u32,
    pub(crate) result: Result<(), Status>,
}

/// What a poller counts for a port, and rings.
pub(crate) struct Arrivals {
    pub(crate) tally: OpTally,
    pub(crate) bell: Arc<dyn Bell>,
}

impl Arrivals {
    pub(crate) fn new(bell: Arc<dyn Bell>) -> Arc<Self> {
        Arc::new(Self { tally: OpTally::new(), bell })
    }

    pub(crate) fn add(&self, done: u64) {
        if self.tally.add(done) {
            self.bell.ring();
        }
    }
}

/// A poller's end of a lane.
pub(crate) struct PollerLane {
    pub(crate) requests: Consumer<Request>,
    pub(crate) replies: Producer<Reply>,
    pub(crate) owner: Arc<Arrivals>,
    /// Requests at the device or on hold.
    pub(crate) out: u32,
    /// Replies that the owner was not told of yet.
    fresh: u64,
    /// It was used since it was last looked at.
    used: bool,
    /// When that was seen.
    last_used: Option<Instant>,
}

impl PollerLane {
    pub(crate) fn new(
        requests: Consumer<Request>,
        replies: Producer<Reply>,
        owner: Arc<Arrivals>,
    ) -> Self {
        Self { requests, replies, owner, out: 0, fresh: 0, used: false, last_used: None }
    }

    /// Whether its owner seems to be at work.
    pub(crate) fn is_busy(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.used) {
            self.last_used = Some(now);
        }
        let lately = |last| now.saturating_duration_since(last) < PATIENCE;
        self.out > 0 || self.last_used.is_some_and(lately)
    }

    pub(crate) fn reply(&mut self, tag: u32, result: Result<(), Status>) {
        self.out -= 1;
        self.fresh += 1;
        self.used = true;
        let room = self.replies.push(Reply { tag, result });
        assert!(room.is_ok(), "a port has no more requests out than replies have room");
    }

    pub(crate) fn tell(&mut self) {
        if self.fresh > 0 {
            self.owner.add(std::mem::take(&mut self.fresh));
        }
    }
}
