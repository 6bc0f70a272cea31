//! The network's simulated twin: all peers in one thread, with a clock of their own, from a seed.
//!
//! Frames are written and read as they are on a wire, credit is counted as it is there, and who may
//! talk to whom is decided by the same hellos. Beyond what TCP does, messages of a connection
//! overtake each other, get lost and come twice: what rests on none of that holds on TCP too. A
//! damaged frame, as there, ends its connection.
//!
//! [`SimNet::step`] tells the handler of a peer what happens next. Nothing here waits, and the same
//! seed with the same calls gives the same events.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::flow::{Receiving, Sending};
use super::tcp::Settings;
use super::{Event, GiveBack, Hold, Network, Refused, Why};
use crate::wire::{self, FRAME_MAX, Message, PeerId};

/// A connection that failed is tried again after so long.
const REDIAL_US: u64 = 20_000;
/// How often it is looked whether a peer that stopped goes on.
const FROZEN_US: u64 = 1_000;
const MILLION: u64 = 1_000_000;

/// What befalls messages. Shares are parts in a million of the messages sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weather {
    /// The shortest and the longest time on the way.
    pub delay_us: (u64, u64),
    /// Lost, while the connection goes on.
    pub lost: u32,
    /// Delivered twice.
    pub twice: u32,
    /// Damaged: a byte changed or the end cut off.
    pub damaged: u32,
    /// The connection ends, with all that is on its way.
    pub cut: u32,
}

impl Weather {
    /// Messages overtake each other, and that is all.
    pub const CALM: Self = Self { delay_us: (20, 400), lost: 0, twice: 0, damaged: 0, cut: 0 };
}

/// A stream of numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Chance(pub u64);

impl Chance {
    /// The next one, below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % bound.max(1)
    }

    fn hits(&mut self, share: u32) -> bool {
        share > 0 && self.below(MILLION) < u64::from(share)
    }
}

/// See the module's description.
#[derive(Clone)]
pub struct SimNet(Arc<Mutex<Inner>>);

struct Inner {
    now: u64,
    chance: Chance,
    weather: Weather,
    /// By time, and at one time in the order in which they were planned.
    plans: BTreeMap<(u64, u64), Plan>,
    planned: u64,
    peers: BTreeMap<PeerId, Arc<Settings>>,
    /// By the lower and the higher of the two.
    pairs: BTreeMap<(PeerId, PeerId), Pair>,
    connections: u64,
    trusting: bool,
    silent_credit: bool,
    /// Who is stopped: what comes to it waits.
    frozen: BTreeSet<PeerId>,
}

/// A connection.
struct Pair {
    number: u64,
    /// Of the lower and the higher.
    sides: [Side; 2],
}

struct Side {
    /// When it hears that there is a connection, and whether it has.
    up_at: u64,
    met: bool,
    sending: Sending,
    receiving: Receiving,
}

enum Plan {
    Connect(PeerId, PeerId),
    Up { at: PeerId, of: PeerId, number: u64 },
    Down { at: PeerId, of: PeerId, why: Why },
    Refused { at: PeerId, of: PeerId, why: Why },
    Frame(SimFrame),
}

/// A frame that is on its way.
struct SimFrame {
    to: PeerId,
    from: PeerId,
    /// Of the connection that it is sent over.
    number: u64,
    bytes: Vec<u8>,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Delivered,
    Lost,
    /// Nobody paid credit for it.
    Second,
    Damaged,
}

/// How much of the credit between peers is neither free nor held by a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stuck {
    /// Bytes that a receiver still holds.
    pub held: u64,
    /// Bytes that were granted, of which the sender does not know.
    pub untold: u64,
}

fn key(a: PeerId, b: PeerId) -> (PeerId, PeerId) {
    (a.min(b), a.max(b))
}

impl SimNet {
    /// A network without peers at time 0.
    pub fn new(seed: u64, weather: Weather) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            now: 0,
            chance: Chance(seed),
            weather,
            plans: BTreeMap::new(),
            planned: 0,
            peers: BTreeMap::new(),
            pairs: BTreeMap::new(),
            connections: 0,
            trusting: false,
            silent_credit: false,
            frozen: BTreeSet::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on messages fare so.
    pub fn set_weather(&self, weather: Weather) {
        self.lock().weather = weather;
    }

    /// A fault to be planted: peers no longer look at each other's hellos.
    pub fn trust_everyone(&self) {
        self.lock().trusting = true;
    }

    /// A fault to be planted: credit that comes back is told to nobody.
    pub fn keep_credit(&self) {
        self.lock().silent_credit = true;
    }

    /// A peer begins: servers dial each other, clients dial servers.
    pub fn join(&self, settings: Settings) {
        let me = settings.me;
        let mut inner = self.lock();
        let others: Vec<_> = inner.peers.keys().copied().collect();
        inner.peers.insert(me, Arc::new(settings));
        for other in others {
            if me.server().is_some() || other.server().is_some() {
                inner.plan(100, Plan::Connect(me, other));
            }
        }
    }

    /// A peer is killed: it hears nothing more, and the others hear that it is gone.
    pub fn kill(&self, who: PeerId) {
        let mut inner = self.lock();
        inner.peers.remove(&who);
        inner.frozen.remove(&who);
        let of: Vec<_> =
            inner.pairs.keys().copied().filter(|pair| pair.0 == who || pair.1 == who).collect();
        for pair in of {
            inner.part(pair, &Why::Closed, false);
        }
    }

    /// A peer stops, or goes on: its connections stay, and what comes to it waits.
    pub fn freeze(&self, who: PeerId, frozen: bool) {
        let mut inner = self.lock();
        if frozen {
            inner.frozen.insert(who);
        } else {
            inner.frozen.remove(&who);
        }
    }

    /// What this peer sends by.
    pub fn sender(&self, me: PeerId) -> SimSender {
        SimSender { inner: Arc::clone(&self.0), me }
    }

    /// The time, in microseconds.
    pub fn now_us(&self) -> u64 {
        self.lock().now
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<u64> {
        self.lock().plans.first_key_value().map(|((at, _), _)| *at)
    }

    /// Lets time pass until then, though nothing happens.
    pub fn pass(&self, until: u64) {
        let mut inner = self.lock();
        inner.now = inner.now.max(until);
    }

    /// Does what happens next, and tells the peer that sees it.
    pub fn step(&self, tell: impl FnOnce(PeerId, Event<'_>)) {
        let mut inner = self.lock();
        let Some(((at, _), plan)) = inner.plans.pop_first() else { return };
        inner.now = inner.now.max(at);
        match plan {
            Plan::Connect(a, b) => inner.connect(key(a, b)),
            Plan::Up { at, of, number } => {
                let Some(pair) = inner.pair(at, of).filter(|pair| pair.number == number) else {
                    return;
                };
                pair.sides[usize::from(at > of)].met = true;
                let theirs = Arc::clone(&inner.peers[&of]);
                drop(inner);
                theirs.hello(|hello| tell(at, Event::Up { peer: of, hello }));
            }
            Plan::Down { at, of, why } if inner.peers.contains_key(&at) => {
                drop(inner);
                tell(at, Event::Down { peer: of, why: &why });
            }
            Plan::Refused { at, of, why } if inner.peers.contains_key(&at) => {
                let server = of.server().and_then(|server| {
                    inner.peers[&at].placement.server(server).ok().map(|of| of.address)
                });
                let address = server.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 1)));
                drop(inner);
                tell(at, Event::Refused { address, who: Some(of), why: &why });
            }
            Plan::Down { .. } | Plan::Refused { .. } => {}
            Plan::Frame(frame) => self.arrive(inner, frame, tell),
        }
    }

    fn arrive(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        frame: SimFrame,
        tell: impl FnOnce(PeerId, Event<'_>),
    ) {
        let SimFrame { to, from, number, fate, .. } = frame;
        if inner.frozen.contains(&to) {
            return inner.plan(FROZEN_US, Plan::Frame(frame));
        }
        let now = inner.now;
        // What was on its way when its connection ended is lost.
        let Some(pair) = inner.pair(to, from).filter(|pair| pair.number == number) else { return };
        let side = &mut pair.sides[usize::from(to > from)];
        if !side.met {
            let wait = side.up_at - now;
            inner.plan(wait, Plan::Frame(frame));
            return;
        }
        let len = frame.bytes.len() as u64;
        let paid = fate != Fate::Second;
        let message = match wire::read(&frame.bytes) {
            Ok((message, _)) => message,
            Err(error) => {
                assert!(fate == Fate::Damaged, "a frame that cannot be read: {error}");
                inner.part(key(to, from), &Why::Frame(error), true);
                return;
            }
        };
        assert!(fate != Fate::Damaged, "a damaged frame was read: {message:?}");
        if let Message::Credit(total) = message {
            side.sending.grant(total);
            let room = side.sending.room();
            drop(inner);
            if room {
                tell(to, Event::Room { peer: from });
            }
            return;
        }
        if let Message::Ping(number) = message {
            // A connection that is there has room for what keeps it.
            let _ = inner.send(to, from, &Message::Pong(number));
            return;
        }
        if let Message::Pong(_) = message {
            drop(inner);
            if fate != Fate::Lost {
                tell(to, Event::Alive { peer: from });
            }
            return;
        }
        if message.kind().takes_credit() && paid && !side.receiving.receive(len) {
            inner.part(key(to, from), &Why::Overrun, true);
            return;
        }
        drop(inner);
        let net = Arc::clone(&self.0);
        let hold = Hold::new(if paid { len } else { 0 }, Arc::new(Held { net, to, from, number }));
        if fate == Fate::Lost {
            drop(hold);
        } else {
            tell(to, Event::Message { peer: from, message, hold });
        }
    }

    /// Credit that will never come back, once nothing is under way any more.
    pub fn stuck(&self) -> Stuck {
        let inner = self.lock();
        let mut stuck = Stuck::default();
        for pair in inner.pairs.values() {
            for (receives, sends) in [(0, 1), (1, 0)] {
                let receiving = &pair.sides[receives].receiving;
                stuck.held += receiving.held();
                stuck.untold += receiving.granted() - pair.sides[sends].sending.granted();
            }
        }
        stuck
    }
}

impl Inner {
    fn plan(&mut self, after: u64, plan: Plan) {
        self.plans.insert((self.now + after, self.planned), plan);
        self.planned += 1;
    }

    fn delay(&mut self) -> u64 {
        let (least, most) = self.weather.delay_us;
        least + self.chance.below(most - least + 1)
    }

    fn pair(&mut self, a: PeerId, b: PeerId) -> Option<&mut Pair> {
        self.pairs.get_mut(&key(a, b))
    }

    fn connect(&mut self, (low, high): (PeerId, PeerId)) {
        let (Some(a), Some(b)) = (self.peers.get(&low).cloned(), self.peers.get(&high).cloned())
        else {
            return;
        };
        if self.pairs.contains_key(&(low, high)) {
            return;
        }
        let mismatch = a.hello(|ours| b.hello(|theirs| ours.admits(&theirs)));
        if let (Err(mismatch), false) = (mismatch, self.trusting) {
            let why = Why::Mismatch(mismatch);
            for (at, of) in [(low, high), (high, low)] {
                let after = self.delay();
                self.plan(after, Plan::Refused { at, of, why: why.clone() });
            }
            return self.plan(REDIAL_US, Plan::Connect(low, high));
        }
        let number = self.connections;
        self.connections += 1;
        let windows = [a.limits.window_bytes, b.limits.window_bytes];
        let sides = [0, 1].map(|side: usize| Side {
            up_at: self.now + self.delay(),
            met: false,
            sending: Sending::new(windows[1 - side]),
            receiving: Receiving::new(windows[side]),
        });
        for (side, at, of) in [(0, low, high), (1, high, low)] {
            let after = sides[side].up_at - self.now;
            self.plan(after, Plan::Up { at, of, number });
        }
        self.pairs.insert((low, high), Pair { number, sides });
    }

    /// Ends a connection; both sides hear of it, and try again where they are still there.
    fn part(&mut self, pair: (PeerId, PeerId), why: &Why, again: bool) {
        let Some(gone) = self.pairs.remove(&pair) else { return };
        for (side, at, of) in [(0, pair.0, pair.1), (1, pair.1, pair.0)] {
            // Whoever has not met the other does not miss it.
            if gone.sides[side].met {
                self.plan(0, Plan::Down { at, of, why: why.clone() });
            }
        }
        if again {
            let after = REDIAL_US + self.delay();
            self.plan(after, Plan::Connect(pair.0, pair.1));
        }
    }

    fn send(&mut self, me: PeerId, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        let side = usize::from(me > to);
        let known = match (self.peers.get(&me), to) {
            (Some(settings), PeerId::Server(number)) => settings.placement.server(number).is_ok(),
            (_, PeerId::Client(_)) => true,
            (None, _) => false,
        };
        let pair = self.pairs.get_mut(&key(me, to)).filter(|pair| pair.sides[side].met);
        let Some(pair) = pair else {
            return Err(if known && me != to { Refused::Down } else { Refused::Unknown });
        };
        let len = message.frame_len();
        if len > FRAME_MAX {
            return Err(Refused::TooLong);
        }
        let from = &mut pair.sides[side];
        if message.kind().takes_credit() && !from.sending.take(len as u64) {
            return Err(Refused::Full);
        }
        let number = pair.number;
        let mut bytes = Vec::with_capacity(len);
        message.append(&mut bytes).map_err(|_| Refused::TooLong)?;
        if self.chance.hits(self.weather.cut) {
            self.part(key(me, to), &Why::Closed, true);
            return Ok(());
        }
        // Credit is a total: one that is lost would be made good by the next, of which there may
        // be none. Neither loses TCP any.
        let credit = matches!(message, Message::Credit(_));
        let mut fate = Fate::Delivered;
        if !credit && self.chance.hits(self.weather.lost) {
            fate = Fate::Lost;
        } else if self.chance.hits(self.weather.damaged) {
            fate = Fate::Damaged;
            if self.chance.below(2) == 0 {
                let at = self.chance.below(len as u64) as usize;
                bytes[at] ^= 1 << self.chance.below(8);
            } else {
                bytes.truncate(self.chance.below(len as u64) as usize);
            }
        } else if self.chance.hits(self.weather.twice) {
            let after = self.delay();
            let bytes = bytes.clone();
            let second = SimFrame { to, from: me, number, bytes, fate: Fate::Second };
            self.plan(after, Plan::Frame(second));
        }
        let after = self.delay();
        self.plan(after, Plan::Frame(SimFrame { to, from: me, number, bytes, fate }));
        Ok(())
    }
}

/// A peer's way into a [`SimNet`].
#[derive(Clone)]
pub struct SimSender {
    inner: Arc<Mutex<Inner>>,
    me: PeerId,
}

impl Network for SimSender {
    fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.send(self.me, to, message)
    }
}

/// Where the credit of a message goes back.
struct Held {
    net: Arc<Mutex<Inner>>,
    to: PeerId,
    from: PeerId,
    number: u64,
}

impl GiveBack for Held {
    fn give_back(&self, bytes: u64) {
        let Self { to, from, number, .. } = *self;
        let mut inner = self.net.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = inner.silent_credit;
        let pair = inner.pair(to, from).filter(|pair| pair.number == number);
        let Some(pair) = pair else { return };
        let side = &mut pair.sides[usize::from(to > from)];
        if let Some(total) = side.receiving.give_back(bytes)
            && !silent
        {
            // A connection that is there has room for what keeps it.
            let _ = inner.send(to, from, &Message::Credit(total));
        }
    }
}
