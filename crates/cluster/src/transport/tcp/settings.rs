//! What a network is told when it begins.

use super::open_error::OpenError;
use super::tls::Tls;
use crate::placement::Placement;
use crate::wire::{FRAME_MAX, HELLO_MAX, Hello, Message, Numbers, PeerId};

/// Which index is served or searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity {
    /// The index's uuid. A client whose identity is all zeros takes what the servers have.
    pub index: [u8; 16],
    /// Its generation.
    pub generation: u64,
    /// The version of its codebook.
    pub codebook: u32,
}

/// Bounds and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that a peer may have under way to this side.
    pub window_bytes: u64,
    /// Bytes that may wait here for a peer, whatever it granted.
    pub queue_bytes: usize,
    /// Connections, those to other servers included: what these leave is for clients, however many come.
    pub connections: usize,
    /// Beside them, connections that have not introduced themselves. One more ends the oldest of them.
    pub handshakes: usize,
    /// How long they have for it.
    pub handshake_us: u64,
    /// A peer is asked whether it is there after so long a silence.
    pub ping_us: u64,
    /// It is taken for dead after so long a one.
    pub silent_us: u64,
    /// The first wait before a server is dialled again; doubles each time. A connection that held for as
    /// long is dialled anew at once.
    pub redial_first_us: u64,
    /// The longest such wait.
    pub redial_most_us: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window_bytes: 4 << 20,
            queue_bytes: 4 << 20,
            connections: 1024,
            handshakes: 128,
            handshake_us: 5_000_000,
            ping_us: 1_000_000,
            silent_us: 5_000_000,
            redial_first_us: 20_000,
            redial_most_us: 2_000_000,
        }
    }
}

/// What a network is told when it begins.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who this is.
    pub me: PeerId,
    /// The servers.
    pub placement: Placement,
    /// The index.
    pub identity: Identity,
    /// How many queries of a client may have a state here at once.
    pub slots: u32,
    /// Certificates; `None` sends everything as it is, to whoever claims to be a server.
    pub tls: Option<Tls>,
    /// Bounds and times.
    pub limits: Limits,
    /// Of the waits before servers are dialled again.
    pub seed: u64,
}

impl Settings {
    /// Whether all of this can be.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        if let PeerId::Server(number) = self.me
            && self.placement.server(number).is_err()
        {
            return Err(OpenError::UnknownServer(number));
        }
        let limits = &self.limits;
        if limits.window_bytes < 2 * FRAME_MAX as u64 {
            return Err(OpenError::Limits("a window has to hold two of the longest frames"));
        }
        if limits.queue_bytes < FRAME_MAX {
            return Err(OpenError::Limits("a queue has to hold the longest frame"));
        }
        if limits.connections < self.placement.servers().len() {
            return Err(OpenError::Limits("there have to be connections for every server"));
        }
        if limits.ping_us == 0 || limits.silent_us <= limits.ping_us {
            return Err(OpenError::Limits("a silent peer has to be asked before it is given up"));
        }
        if limits.handshake_us == 0 || limits.redial_first_us == 0 {
            return Err(OpenError::Limits("times have to be above zero"));
        }
        let mut frame = Vec::new();
        let fits = self.hello(|hello| Message::Hello(hello).append(&mut frame));
        if !matches!(fits, Ok(len) if len <= HELLO_MAX) {
            return Err(OpenError::Limits("one server owns too many partitions to name them all"));
        }
        Ok(())
    }

    /// How many clients may be connected: each other server finds a connection, whenever it comes.
    pub(super) fn clients(&self) -> usize {
        let servers = self.placement.servers().iter().map(|server| PeerId::Server(server.number));
        self.limits.connections.saturating_sub(servers.filter(|other| *other != self.me).count())
    }

    /// What this side says of itself.
    pub(in crate::transport) fn hello<T>(&self, with: impl FnOnce(Hello<'_>) -> T) -> T {
        let owned = match self.me {
            PeerId::Server(number) => self
                .placement
                .server(number)
                .map_or_else(|_| Vec::new(), |server| server.partitions.clone()),
            PeerId::Client(_) => Vec::new(),
        };
        let partitions = Numbers::pack(owned);
        with(Hello {
            cluster: self.placement.cluster(),
            who: self.me,
            index: self.identity.index,
            generation: self.identity.generation,
            codebook: self.identity.codebook,
            partitions: Numbers::of(&partitions).expect("packed numbers are whole"),
            slots: self.slots,
            credit: self.limits.window_bytes,
        })
    }
}
