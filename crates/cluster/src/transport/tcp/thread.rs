//! The network thread: waits for sockets and times, accepts, dials, and ends what is silent.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::{TcpListener as Listener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use rustls::Connection as Session;

use super::super::{Event, Handler, Why};
use super::connection::Connection;
use super::lane::{Peer, Shared, lock};
use super::open_error::OpenError;
use super::settings::Settings;
use crate::wire::{Goodbye, Leave, Message, PeerId};

const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);
/// Ciphertext of one read.
const SCRATCH: usize = 128 << 10;
/// How long a listener rests that cannot accept, for want of descriptors.
const ACCEPT_AGAIN_US: u64 = 100_000;

/// What the network thread owns.
pub(super) struct Thread {
    pub(super) settings: Settings,
    pub(super) shared: Arc<Shared>,
    pub(super) handler: Box<dyn Handler>,
    pub(super) entries: Vec<Option<Entry>>,
    /// Connections that may have more to read than their turn allowed.
    pub(super) again: Vec<Token>,
    pub(super) scratch: Vec<u8>,
    /// Whether the handler was told of an end since it said what is due next.
    pub(super) told: bool,
    poll: Poll,
    listener: Option<Listener>,
    dials: Vec<Dial>,
    /// When a connection, a dial or the listener is due.
    next_scan: u64,
    accept_again: Option<u64>,
    /// Connections so far.
    admitted: u64,
    chance: u64,
}

/// A connection and what is known of the other side.
pub(super) struct Entry {
    /// The how-many-th of all.
    number: u64,
    /// Locked by others for as long as a write takes that does not wait.
    pub(super) connection: Arc<Mutex<Connection>>,
    /// Whom this side dialled.
    pub(super) dialled: Option<u32>,
    pub(super) connecting: bool,
    pub(super) peer: Option<Arc<Peer>>,
    /// Who the other side says to be, or was dialled as.
    pub(super) claims: Option<PeerId>,
    pub(super) began: u64,
    pub(super) heard: u64,
    /// When it was asked whether it is there, where it has said nothing since.
    pub(super) pinged: Option<u64>,
}

/// A server that this side dials.
struct Dial {
    server: u32,
    address: SocketAddr,
    name: String,
    /// When next; `None` while there is a connection.
    at: Option<u64>,
    failures: u32,
    /// Since when there is a connection.
    reached: Option<u64>,
}

/// Begins a network.
pub(super) fn start(
    settings: Settings,
    listener: Option<TcpListener>,
    handler: Box<dyn Handler>,
) -> Result<(Arc<Shared>, JoinHandle<()>), OpenError> {
    settings.check()?;
    let poll = Poll::new().map_err(OpenError::Thread)?;
    let waker = Waker::new(poll.registry(), WAKER).map_err(OpenError::Thread)?;
    let mut listener = match listener {
        Some(listener) => {
            listener.set_nonblocking(true).map_err(OpenError::Thread)?;
            Some(Listener::from_std(listener))
        }
        None => None,
    };
    if let Some(listener) = &mut listener {
        let registry = poll.registry();
        registry.register(listener, LISTENER, Interest::READABLE).map_err(OpenError::Thread)?;
    }
    let servers = settings.placement.servers().iter().map(|server| server.number).collect();
    let shared = Arc::new(Shared::new(settings.me, servers, waker, settings.limits.queue_bytes));
    let dials = settings
        .placement
        .servers()
        .iter()
        .filter(|server| settings.me.server().is_none_or(|me| me > server.number))
        .map(|server| Dial {
            server: server.number,
            address: server.address,
            name: server.tls_name.clone(),
            at: Some(0),
            failures: 0,
            reached: None,
        })
        .collect();
    let name = match settings.me {
        PeerId::Server(number) => format!("net-{number}"),
        PeerId::Client(_) => "net-client".to_owned(),
    };
    let mut thread = Thread {
        chance: settings.seed,
        settings,
        shared: Arc::clone(&shared),
        handler,
        entries: Vec::new(),
        again: Vec::new(),
        scratch: vec![0; SCRATCH],
        told: false,
        poll,
        listener,
        dials,
        next_scan: 0,
        accept_again: None,
        admitted: 0,
    };
    let thread = std::thread::Builder::new()
        .name(name)
        .spawn(move || thread.run())
        .map_err(OpenError::Thread)?;
    Ok((shared, thread))
}

impl Thread {
    fn run(&mut self) {
        self.shared.runs_on(&std::thread::current());
        let mut events = Events::with_capacity(256);
        let (mut ready, mut dirty) = (Vec::new(), Vec::new());
        let mut due = Some(0);
        while !self.shared.is_stopping() {
            let until = due.unwrap_or(u64::MAX).min(self.next_scan);
            let busy = self.shared.lie_down(until) || self.told || !self.again.is_empty();
            let wait = if busy { 0 } else { until.saturating_sub(self.shared.now_us()) };
            let waited = self.poll.poll(&mut events, Some(Duration::from_micros(wait)));
            self.shared.get_up();
            match waited {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => panic!("the queue of events is open as long as its thread: {error}"),
            }
            let now = self.shared.now_us();
            ready.clear();
            ready.extend(events.iter().map(|event| event.token()));
            ready.append(&mut self.again);
            for &token in &ready {
                match token {
                    WAKER => {}
                    LISTENER => self.accept(now),
                    token => self.drive(now, token, true),
                }
            }
            if now >= self.next_scan {
                self.scan(now);
            }
            self.shared.looks();
            self.told = false;
            due = self.handler.due(now, &*self.shared);
            self.shared.take_dirty(&mut dirty);
            for &token in &dirty {
                self.drive(now, token, false);
            }
        }
        self.leave();
    }

    fn accept(&mut self, now: u64) {
        while let Some(listener) = &self.listener {
            let (socket, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) =>
                {
                    continue;
                }
                Err(_) => {
                    self.accept_again = Some(now + ACCEPT_AGAIN_US);
                    self.next_scan = self.next_scan.min(now + ACCEPT_AGAIN_US);
                    return;
                }
            };
            if !self.makes_room(now) {
                self.handler.event(
                    now,
                    &*self.shared,
                    Event::Refused { address, who: None, why: &Why::TooMany },
                );
                continue;
            }
            let tls = self.settings.tls.as_ref().map(|tls| tls.accept()).transpose();
            match tls {
                Ok(tls) => self.admit(now, socket, address, tls, None),
                Err(words) => {
                    let why = Why::Tls(words);
                    let event = Event::Refused { address, who: None, why: &why };
                    self.handler.event(now, &*self.shared, event);
                }
            }
        }
    }

    /// Whether there is room for one more that has not introduced itself. The oldest of them goes for it:
    /// whoever is about to speak does so soon. How many peers there are is seen when they have spoken.
    fn makes_room(&mut self, now: u64) -> bool {
        let strangers = self.entries.iter().enumerate().filter_map(|(at, entry)| {
            let entry = entry.as_ref()?;
            (entry.peer.is_none() && entry.dialled.is_none()).then_some((entry.number, at))
        });
        let strangers: Vec<_> = strangers.collect();
        if strangers.len() < self.settings.limits.handshakes {
            return true;
        }
        let Some((_, oldest)) = strangers.into_iter().min() else { return false };
        let oldest = self.entries[oldest].take().expect("just seen");
        self.end(now, oldest, &Why::TooMany);
        true
    }

    /// Takes a socket up.
    fn admit(
        &mut self,
        now: u64,
        mut socket: TcpStream,
        address: SocketAddr,
        tls: Option<Session>,
        dialled: Option<u32>,
    ) {
        let at = self.entries.iter().position(Option::is_none).unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        let both = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(&mut socket, Token(at), both);
        // A message that is small and alone leaves at once, whether the one before was heard or not.
        // Where that cannot be had it waits, and nothing is lost.
        let _ = socket.set_nodelay(true);
        let mut connection = Connection::new(socket, address, tls);
        // Whoever dials speaks first. The other side answers once it has agreed, so that nobody is
        // taken for a peer who is about to be refused.
        if dialled.is_some() {
            self.say_hello(&mut connection);
        }
        self.admitted += 1;
        let entry = Entry {
            number: self.admitted,
            connection: Arc::new(Mutex::new(connection)),
            dialled,
            connecting: dialled.is_some(),
            peer: None,
            claims: dialled.map(PeerId::Server),
            began: now,
            heard: now,
            pinged: None,
        };
        self.next_scan = self.next_scan.min(now + self.settings.limits.handshake_us);
        match registered {
            Ok(()) => self.entries[at] = Some(entry),
            Err(error) => self.end(now, entry, &Why::Io(error.kind())),
        }
    }

    /// A peer was heard that is to be asked when it has been silent for long.
    pub(super) fn listens_from(&mut self, now: u64) {
        self.next_scan = self.next_scan.min(now + self.settings.limits.ping_us);
    }

    /// Puts this side's hello behind whatever goes out.
    pub(super) fn say_hello(&self, connection: &mut Connection) {
        self.settings.hello(|hello| {
            let hello = Message::Hello(hello).append(&mut connection.output);
            hello.expect("the settings were checked when the network began")
        });
    }

    /// Does what is due by now, and finds out what is due next.
    fn scan(&mut self, now: u64) {
        let mut next = u64::MAX;
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_again = None;
            self.next_scan = u64::MAX;
            self.accept(now);
        }
        next = next.min(self.accept_again.unwrap_or(u64::MAX));
        let limits = self.settings.limits;
        for at in 0..self.entries.len() {
            let Some(entry) = &mut self.entries[at] else { continue };
            let (due, why) = match &entry.peer {
                None => (entry.began + limits.handshake_us, Why::SlowHandshake),
                Some(peer) => {
                    let ping = entry.heard + limits.ping_us;
                    if entry.pinged.is_none() && now >= ping {
                        entry.pinged = Some(now);
                        peer.control(&Message::Ping(now));
                    }
                    // However late it was asked, it has the rest of the time for its answer.
                    let rest = limits.silent_us - limits.ping_us;
                    (entry.pinged.map_or(ping, |at| at + rest), Why::Silent)
                }
            };
            if now < due {
                next = next.min(due);
            } else if let Some(entry) = self.entries[at].take() {
                self.end(now, entry, &why);
            }
        }
        // Those that are accepted meanwhile, and dials, may be due before.
        self.next_scan = next;
        for at in 0..self.dials.len() {
            match self.dials[at].at {
                Some(due) if due <= now => self.dial(now, at),
                Some(due) => self.next_scan = self.next_scan.min(due),
                None => {}
            }
        }
    }

    fn dial(&mut self, now: u64, at: usize) {
        let dial = &mut self.dials[at];
        dial.at = None;
        let (server, address) = (dial.server, dial.address);
        let tls = self.settings.tls.as_ref().map(|tls| tls.dial(&dial.name)).transpose();
        let socket = TcpStream::connect(address);
        let why = match (socket, tls) {
            (Ok(socket), Ok(tls)) => return self.admit(now, socket, address, tls, Some(server)),
            (Err(error), _) => Why::Io(error.kind()),
            (_, Err(words)) => Why::Tls(words),
        };
        self.redial(now, server, false);
        let who = Some(PeerId::Server(server));
        self.handler.event(now, &*self.shared, Event::Refused { address, who, why: &why });
    }

    /// A dialled server was reached, or its connection ended.
    pub(super) fn redial(&mut self, now: u64, server: u32, reached: bool) {
        let limits = self.settings.limits;
        let Some(dial) = self.dials.iter_mut().find(|dial| dial.server == server) else { return };
        if reached {
            (dial.failures, dial.at, dial.reached) = (0, None, Some(now));
            return;
        }
        // One that held is dialled at once: states wait for it. Whoever hangs up on each is not.
        let held = dial.reached.take().is_some_and(|at| now >= at + limits.redial_first_us);
        let doubled = limits.redial_first_us.saturating_mul(1 << dial.failures.min(20));
        let wait = if held { 0 } else { doubled.min(limits.redial_most_us) };
        dial.failures += u32::from(!held);
        // Between half of it and all: servers that lost one at the same moment spread out.
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let wait = wait - wait / 2 * (self.chance >> 33) / (1 << 31);
        dial.at = Some(now + wait);
        self.next_scan = self.next_scan.min(now + wait);
    }

    /// Forgets a socket.
    pub(super) fn deregister(&mut self, socket: &mut TcpStream) {
        // Closing it would do the same.
        let _ = self.poll.registry().deregister(socket);
    }

    /// Says goodbye to everyone, also to who is not a peer yet: the other side may think it is one. To
    /// servers last: whoever still heard of this side when it has left a server would be told that the
    /// other is gone.
    fn leave(&mut self) {
        let now = self.shared.now_us();
        let goodbye = Message::Goodbye(Goodbye { why: Leave::Stopping, words: "it stops" });
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|at| {
            let who = self.entries[*at].as_ref().and_then(|entry| entry.claims);
            who.is_some_and(|who| who.server().is_some())
        });
        for at in order {
            let Some(entry) = &mut self.entries[at] else { continue };
            match &entry.peer {
                Some(peer) => {
                    peer.control(&goodbye);
                }
                None => {
                    let mut connection = lock(&entry.connection);
                    goodbye.append(&mut connection.output).expect("two words");
                }
            }
            self.drive(now, Token(at), false);
            if let Some(entry) = self.entries[at].take() {
                self.end(now, entry, &Why::Stopping);
            }
        }
    }
}
