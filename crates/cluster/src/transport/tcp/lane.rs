//! What every thread sees of a network: peers, what waits for each, and how the network thread is
//! told.
//!
//! Waking a thread costs more than sending a frame. So whoever has nothing else to send soon, while the
//! network thread sleeps, may write to the socket itself, where nobody else is at it; what that thread
//! alone can do, or will do anyway because it is up, is left to it. Nobody waits for a connection but
//! the network thread.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::thread::{Thread, ThreadId};
use std::time::Instant;

use mio::{Token, Waker};

use super::super::flow::{Receiving, Sending};
use super::super::{GiveBack, Network, Refused};
use super::connection::Connection;
use crate::wire::{Message, PeerId};

/// Frames that keep a connection may wait in so many bytes. More, and the peer does not read.
const CONTROL_MAX: usize = 64 << 10;

/// What the threads of a network share.
pub(super) struct Shared {
    pub(super) me: PeerId,
    /// Servers of the topology: known even while they are down.
    servers: Vec<u32>,
    pub(super) peers: RwLock<HashMap<PeerId, Arc<Peer>>>,
    /// Connections with something to write.
    dirty: Mutex<Vec<Token>>,
    waker: Waker,
    /// The network thread waits for events, or is about to.
    sleeping: AtomicBool,
    /// Until when it will; the largest number while it finds that out.
    until: AtomicU64,
    /// Something may be due before.
    sooner: AtomicBool,
    stopping: AtomicBool,
    thread: OnceLock<ThreadId>,
    queue_bytes: usize,
    began: Instant,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("me", &self.me).finish_non_exhaustive()
    }
}

/// A peer with a connection.
pub(super) struct Peer {
    pub(super) id: PeerId,
    pub(super) token: Token,
    lane: Mutex<Lane>,
    /// The network thread's: with it the socket closes, whoever still knows of the peer.
    connection: Weak<Mutex<Connection>>,
    shared: Weak<Shared>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Both directions of a connection, as far as other threads have to do with them.
struct Lane {
    out: Vec<u8>,
    sending: Sending,
    receiving: Receiving,
    /// Bytes that may wait in `out`.
    queue_bytes: usize,
    /// Its token is among the dirty ones.
    listed: bool,
    open: bool,
    /// Frames that keep the connection, since `out` was last taken.
    control: usize,
}

/// A poisoned lock is one whose holder panicked; what it guards is whole between statements, and a
/// handler's panic ends the network thread anyway.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(me: PeerId, servers: Vec<u32>, waker: Waker, queue_bytes: usize) -> Self {
        Self {
            me,
            servers,
            peers: RwLock::default(),
            dirty: Mutex::default(),
            waker,
            sleeping: AtomicBool::new(false),
            until: AtomicU64::new(u64::MAX),
            sooner: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            thread: OnceLock::new(),
            queue_bytes,
            began: Instant::now(),
        }
    }

    pub(super) fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).expect("half a million years")
    }

    /// Called by the network thread before it does anything.
    pub(super) fn runs_on(&self, thread: &Thread) {
        let _ = self.thread.set(thread.id());
    }

    pub(super) fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        if let Some(peer) = self.put(to, message)? {
            self.list(peer.token);
        }
        Ok(())
    }

    /// Puts a message behind others. Gives the peer where nobody has been told of it.
    pub(super) fn put(
        &self,
        to: PeerId,
        message: &Message<'_>,
    ) -> Result<Option<Arc<Peer>>, Refused> {
        let peer = self.peers.read().unwrap_or_else(PoisonError::into_inner).get(&to).cloned();
        let Some(peer) = peer else {
            return Err(match to {
                PeerId::Server(number) if number != self.me.server().unwrap_or(u32::MAX) => {
                    match self.servers.binary_search(&number) {
                        Ok(_) => Refused::Down,
                        Err(_) => Refused::Unknown,
                    }
                }
                PeerId::Server(_) => Refused::Unknown,
                PeerId::Client(_) => Refused::Down,
            });
        };
        let listed = {
            let mut lane = lock(&peer.lane);
            if !lane.open {
                return Err(Refused::Down);
            }
            let bytes = message.frame_len();
            if bytes > crate::wire::FRAME_MAX {
                return Err(Refused::TooLong);
            }
            // What keeps the connection takes no credit.
            let takes = message.kind().takes_credit();
            if lane.out.len() + bytes > lane.queue_bytes {
                lane.sending.refuse(bytes as u64);
                return Err(Refused::Full);
            }
            if takes && !lane.sending.take(bytes as u64) {
                return Err(Refused::Full);
            }
            message.append(&mut lane.out).map_err(|_| Refused::TooLong)?;
            std::mem::replace(&mut lane.listed, true)
        };
        Ok((!listed).then_some(peer))
    }

    /// Sees to it that what waits for a peer is written: here, where that is wanted and possible, and
    /// else by the network thread.
    pub(super) fn push(&self, peer: &Peer, here: bool) {
        let asleep = !self.is_here() && self.sleeping.load(Ordering::SeqCst);
        if !(here && asleep && peer.write()) {
            self.list(peer.token);
        }
    }

    /// Whether this is the network thread.
    fn is_here(&self) -> bool {
        self.thread.get() == Some(&std::thread::current().id())
    }

    /// Has the network thread write what waits on a connection.
    fn list(&self, token: Token) {
        lock(&self.dirty).push(token);
        self.wake();
    }

    fn wake(&self) {
        // The network thread looks for what waits before it sleeps.
        if self.is_here() {
            return;
        }
        if self.sleeping.swap(false, Ordering::SeqCst) {
            // The queue of events is open as long as the thread; afterwards nobody has to wake.
            let _ = self.waker.wake();
        }
    }

    /// Something is due at this time, which may be before the network thread looks by itself.
    pub(super) fn due_by(&self, at_us: u64) {
        if at_us < self.until.load(Ordering::SeqCst) {
            self.sooner.store(true, Ordering::SeqCst);
            self.wake();
        }
    }

    /// The network thread finds out what is due next: what comes to be due from now on is told.
    pub(super) fn looks(&self) {
        self.until.store(u64::MAX, Ordering::SeqCst);
    }

    /// Announces sleep until a time. Says whether there is a reason not to.
    pub(super) fn lie_down(&self, until_us: u64) -> bool {
        self.until.store(until_us, Ordering::SeqCst);
        self.sleeping.store(true, Ordering::SeqCst);
        let sooner = self.sooner.swap(false, Ordering::SeqCst);
        sooner || !lock(&self.dirty).is_empty() || self.is_stopping()
    }

    pub(super) fn get_up(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// The connections with something to write, in exchange for an empty list.
    pub(super) fn take_dirty(&self, into: &mut Vec<Token>) {
        into.clear();
        std::mem::swap(&mut *lock(&self.dirty), into);
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.sleeping.store(false, Ordering::SeqCst);
        let _ = self.waker.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

impl Peer {
    pub(super) fn new(
        id: PeerId,
        token: Token,
        shared: &Arc<Shared>,
        connection: &Arc<Mutex<Connection>>,
        (granted, window): (u64, u64),
    ) -> Self {
        let lane = Lane {
            out: Vec::new(),
            sending: Sending::new(granted),
            receiving: Receiving::new(window),
            queue_bytes: shared.queue_bytes,
            listed: false,
            open: true,
            control: 0,
        };
        let (connection, shared) = (Arc::downgrade(connection), Arc::downgrade(shared));
        Self { id, token, lane: Mutex::new(lane), connection, shared }
    }

    /// Exchanges what waits for an empty buffer. Says whether there is room for who was refused.
    pub(super) fn take(&self, into: &mut Vec<u8>) -> bool {
        debug_assert!(into.is_empty(), "what was taken before has been written");
        let mut lane = lock(&self.lane);
        lane.take(into);
        !into.is_empty() && lane.room()
    }

    /// Writes what waits, on another thread than the network's. False where that has to be woken:
    /// somebody is at the connection or waits for room, or the connection ends.
    fn write(&self) -> bool {
        let Some(connection) = self.connection.upgrade() else { return false };
        let Ok(mut connection) = connection.try_lock() else { return false };
        loop {
            match connection.flush() {
                Ok(true) if connection.is_idle() => {}
                // The system tells the network thread when the socket takes more.
                Ok(_) => return true,
                // It sees the same, and says so to whom it concerns.
                Err(_) => return false,
            }
            let mut lane = lock(&self.lane);
            if lane.sending.wanted().is_some() {
                return false;
            }
            lane.take(&mut connection.output);
            if connection.output.is_empty() {
                return true;
            }
        }
    }

    /// Bytes of a message came in. Says whether the peer was allowed them.
    pub(super) fn receive(&self, bytes: u64) -> bool {
        lock(&self.lane).receiving.receive(bytes)
    }

    /// The peer grants more. Says whether there is room for who was refused.
    pub(super) fn grant(&self, total: u64) -> bool {
        let mut lane = lock(&self.lane);
        lane.sending.grant(total);
        lane.room()
    }

    /// Puts a frame that keeps the connection behind the others. Says whether the peer may go on.
    pub(super) fn control(&self, message: &Message<'_>) -> bool {
        let (listed, ok) = {
            let mut lane = lock(&self.lane);
            if !lane.open {
                return true;
            }
            lane.control += message.frame_len();
            message.append(&mut lane.out).expect("control frames are short");
            (std::mem::replace(&mut lane.listed, true), lane.control <= CONTROL_MAX)
        };
        if !listed && let Some(shared) = self.shared.upgrade() {
            shared.list(self.token);
        }
        ok
    }

    /// Nothing is sent any more.
    pub(super) fn close(&self) {
        let mut lane = lock(&self.lane);
        lane.open = false;
        lane.out = Vec::new();
    }
}

impl Lane {
    fn take(&mut self, into: &mut Vec<u8>) {
        std::mem::swap(&mut self.out, into);
        self.listed = false;
        self.control = 0;
    }

    /// Whether the shortest of what was refused can be sent by now.
    fn room(&mut self) -> bool {
        let wanted = self.sending.wanted();
        let fits =
            wanted.is_some_and(|least| self.out.len() as u64 + least <= self.queue_bytes as u64);
        fits && self.sending.room()
    }
}

impl GiveBack for Peer {
    fn give_back(&self, bytes: u64) {
        let total = lock(&self.lane).receiving.give_back(bytes);
        if let Some(total) = total {
            self.control(&Message::Credit(total));
        }
    }
}

impl Network for Shared {
    fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        Self::send(self, to, message)
    }
}
