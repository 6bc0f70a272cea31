//! Real sockets over loopback: who is let in, who is refused by name, and what waits for whom.

mod strangers;
mod together;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender as Give, channel};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::super::{Event, Handler, Hold, Network, Refused, Why};
use super::{Identity, Limits, Settings, Tcp, Tls, listen};
use crate::placement::{Placement, Server};
use crate::wire::{Message, Numbers, PeerId, QueryId, State};

/// After so long nothing will happen any more.
const HANGS: Duration = Duration::from_secs(30);

/// An event that is kept.
#[derive(Debug)]
enum Seen {
    Up(PeerId),
    Body(PeerId, Vec<u8>, #[expect(dead_code, reason = "held until it is dropped")] Hold),
    Room,
    Down(PeerId, Why),
    Refused(Why),
}

struct Recorder(Give<Seen>);

impl Handler for Recorder {
    fn event(&mut self, _now_us: u64, _network: &dyn Network, event: Event<'_>) {
        let seen = match event {
            Event::Up { peer, .. } => Seen::Up(peer),
            Event::Message { peer, message: Message::State(state), hold } => {
                Seen::Body(peer, state.state.to_vec(), hold)
            }
            Event::Message { message, .. } => panic!("nobody sends {message:?}"),
            Event::Room { .. } => Seen::Room,
            Event::Down { peer, why } => Seen::Down(peer, why.clone()),
            Event::Alive { .. } => return,
            Event::Refused { why, .. } => Seen::Refused(why.clone()),
        };
        // A test that has seen enough listens no more.
        let _ = self.0.send(seen);
    }

    fn due(&mut self, _now_us: u64, _network: &dyn Network) -> Option<u64> {
        None
    }
}

struct Node {
    tcp: Tcp,
    seen: Receiver<Seen>,
}

impl Node {
    fn open(settings: Settings, listener: Option<TcpListener>) -> Self {
        let (give, seen) = channel();
        let tcp = Tcp::open(settings, listener, Recorder(give)).expect("loopback");
        Self { tcp, seen }
    }

    /// The first thing from now on that the question says something of.
    fn find<T>(&self, question: impl Fn(&Seen) -> Option<T>) -> T {
        // A server that is refused dials again for ever, so things happen even where the one that
        // is waited for does not.
        let until = Instant::now() + HANGS;
        let mut others = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let seen = self.seen.recv_timeout(left);
            let seen = seen.unwrap_or_else(|_| panic!("it does not happen, but {others:?}"));
            if let Some(found) = question(&seen) {
                return found;
            }
            if others.len() < 20 {
                others.push(format!("{:.200}", format!("{seen:?}")));
            }
        }
    }

    fn up(&self, who: PeerId) {
        self.find(|seen| matches!(seen, Seen::Up(peer) if *peer == who).then_some(()));
    }

    /// Sends as soon as the peer is up, whoever comes up before it.
    fn reach(&self, to: PeerId, body: &[u8]) {
        while let Err(refused) = self.send(to, body) {
            assert_eq!(refused, Refused::Down);
            // It is entered as a peer before it is said to be up, so something is still to come.
            self.seen.recv_timeout(HANGS).expect("somebody comes up");
        }
    }

    fn down(&self, who: PeerId) -> Why {
        self.find(|seen| match seen {
            Seen::Down(peer, why) if *peer == who => Some(why.clone()),
            _ => None,
        })
    }

    /// Why somebody was refused, in words.
    fn refused(&self, words: &str) {
        self.find(|seen| match seen {
            Seen::Refused(why) => why.to_string().contains(words).then_some(()),
            _ => None,
        });
    }

    fn body(&self, from: PeerId) -> Vec<u8> {
        self.find(|seen| match seen {
            Seen::Body(peer, body, _) if *peer == from => Some(body.clone()),
            _ => None,
        })
    }

    fn send(&self, to: PeerId, body: &[u8]) -> Result<(), Refused> {
        send(&self.tcp, to, body)
    }
}

fn send(network: &dyn Network, to: PeerId, body: &[u8]) -> Result<(), Refused> {
    network.send(to, &carrying(PeerId::Server(0), body))
}

/// A message of any length.
fn carrying(asker: PeerId, state: &[u8]) -> Message<'_> {
    let query = QueryId { asker, number: 0 };
    let (trace, missing) = (Numbers::default(), Numbers::default());
    let (attempt, left_us, hops, partition) = (0, 0, 0, 0);
    Message::State(State { query, attempt, left_us, hops, partition, trace, missing, state })
}

/// Servers 0, 1, .. with a partition each, listening on ports of the system's choice. Each cluster
/// has a loopback address of its own: a port that it gives up goes to no other test.
pub(crate) fn cluster(servers: u32) -> (Placement, Vec<TcpListener>) {
    static CLUSTERS: AtomicU8 = AtomicU8::new(1);
    let process = std::process::id().to_le_bytes();
    let own = CLUSTERS.fetch_add(1, Ordering::Relaxed);
    let any = SocketAddr::from(([127, 128 | process[1], process[0], own], 0));
    let listeners: Vec<_> = (0..servers).map(|_| listen(any).expect("a free port")).collect();
    let of = listeners.iter().zip(0..).map(|(listener, number)| Server {
        number,
        address: listener.local_addr().expect("it listens"),
        tls_name: format!("server-{number}"),
        partitions: vec![number],
    });
    let placement = Placement::new("blue".to_owned(), servers, of.collect());
    (placement.expect("each partition once"), listeners)
}

fn settings(me: PeerId, placement: &Placement, tls: Option<Tls>) -> Settings {
    let identity = match me {
        PeerId::Server(_) => Identity { index: [7; 16], generation: 3, codebook: 1 },
        PeerId::Client(_) => Identity::default(),
    };
    // Quick to try again, and never so quick to give up that a loaded machine fails a test.
    let limits = Limits {
        redial_first_us: 2_000,
        redial_most_us: 50_000,
        silent_us: 20_000_000,
        ..Limits::default()
    };
    Settings { me, placement: placement.clone(), identity, slots: 8, tls, limits, seed: 1 }
}

/// The authority of a cluster, which signs certificates for its servers and clients.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn sign(&self, name: &str) -> Tls {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let chain = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        let key = key.serialize_pem();
        Tls::from_pem(self.pem.as_bytes(), chain.as_bytes(), key.as_bytes()).expect("our own")
    }
}

/// All servers of a cluster, over TLS where there is an authority.
fn servers(count: u32, authority: Option<&Authority>) -> (Placement, Vec<Node>) {
    let (placement, listeners) = cluster(count);
    let nodes = listeners.into_iter().zip(0..).map(|(listener, number)| {
        let tls = authority.map(|authority| authority.sign(&format!("server-{number}")));
        Node::open(settings(PeerId::Server(number), &placement, tls), Some(listener))
    });
    let nodes = nodes.collect();
    (placement, nodes)
}
