//! Messages to peers and from them: one trait, so that sockets can be simulated.
//!
//! A [`Network`] keeps one connection a peer. [`Network::send`] never waits: a message is either on
//! its way, or refused with the reason. What arrives goes to a [`Handler`]; each message comes with
//! a [`Hold`] on the sender's credit, so a handler that keeps messages slows its peers and not
//! itself. Messages of one peer may get lost with its connection, and nothing else is promised:
//! whoever needs an answer has a deadline.

mod flow;
pub mod sim;
pub mod tcp;
pub(crate) mod troubles;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::wire::{FrameError, Hello, Kind, Leave, Message, Mismatch, PeerId};

/// Why a message was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The peer has not granted room for it; [`Event::Room`] says when it has.
    #[error("the peer has no room")]
    Full,
    /// There is no connection to the peer.
    #[error("the peer is not connected")]
    Down,
    /// Nobody of that name can ever be reached from here.
    #[error("no such peer")]
    Unknown,
    /// No frame holds it.
    #[error("the message is too long")]
    TooLong,
}

/// Sends messages.
pub trait Network {
    /// Sends a message, or says at once why not.
    fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused>;
}

/// Why a connection ended, or never came to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer sent what is no frame of ours.
    #[error("the peer sent what cannot be read: {0}")]
    Frame(#[from] FrameError),
    /// The peer serves something else.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// No secure connection came about.
    #[error("TLS: {0}")]
    Tls(String),
    /// What the peer sends is no TLS.
    #[error("TLS: the peer does without certificates, and this side has some")]
    NoTls,
    /// What the peer sends is TLS, and not expected here.
    #[error("the peer asks for certificates (TLS), and this side does without")]
    SpeaksTls,
    /// The peer's certificate does not carry the name of who it claims to be.
    #[error("the certificate of {peer} does not carry its name: {words}")]
    NotNamed {
        /// Who it claims to be.
        peer: PeerId,
        /// What the certificate lacks.
        words: String,
    },
    /// Nothing was heard for too long.
    #[error("the peer has been silent for too long")]
    Silent,
    /// The peer did not introduce itself in time.
    #[error("the peer did not introduce itself in time")]
    SlowHandshake,
    /// The peer connected anew.
    #[error("the peer connected anew")]
    Replaced,
    /// A client of the same number is connected with another certificate.
    #[error("{0} is connected already, with another certificate")]
    Taken(PeerId),
    /// The peer sent more than it was granted.
    #[error("the peer sent more than it was granted")]
    Overrun,
    /// The peer takes in nothing of what it makes this side say.
    #[error("the peer does not read what it asks for")]
    NotReading,
    /// The peer said why it goes.
    #[error("the peer ended the connection ({why:?}): {words}")]
    Goodbye {
        /// In a word.
        why: Leave,
        /// In its own.
        words: String,
    },
    /// A message out of turn.
    #[error("a message of kind {0:?} out of turn")]
    OutOfTurn(Kind),
    /// As many connections as there may be.
    #[error("as many connections as there may be")]
    TooMany,
    /// The operating system says so.
    #[error("the connection failed: {0}")]
    Io(std::io::ErrorKind),
    /// This side stops.
    #[error("this side stops")]
    Stopping,
}

/// What happens on a network.
#[derive(Debug)]
pub enum Event<'a> {
    /// A peer can be reached.
    Up {
        /// Which peer.
        peer: PeerId,
        /// What it said of itself.
        hello: Hello<'a>,
    },
    /// A message came. Never one that the network itself answers.
    Message {
        /// From whom.
        peer: PeerId,
        /// What it says.
        message: Message<'a>,
        /// The peer's credit for it, given back when this is dropped.
        hold: Hold,
    },
    /// A peer answered a ping.
    Alive {
        /// Which peer.
        peer: PeerId,
    },
    /// A peer to which a message was refused for want of room has some again.
    Room {
        /// Which peer.
        peer: PeerId,
    },
    /// A peer cannot be reached any more.
    Down {
        /// Which peer.
        peer: PeerId,
        /// Why not.
        why: &'a Why,
    },
    /// Somebody did not become a peer, or could not be made one.
    Refused {
        /// At which address.
        address: SocketAddr,
        /// Who was dialled, or who it says to be.
        who: Option<PeerId>,
        /// Why not.
        why: &'a Why,
    },
}

/// Takes what happens. Called from one place at a time; must not wait.
pub trait Handler: Send {
    /// Takes an event. Times are microseconds on the network's own clock.
    fn event(&mut self, now_us: u64, network: &dyn Network, event: Event<'_>);

    /// Does what is due by now, and says when something will be next.
    fn due(&mut self, now_us: u64, network: &dyn Network) -> Option<u64>;
}

/// To whom a [`Hold`] goes back.
pub(crate) trait GiveBack: Send + Sync {
    /// Gives back the credit of so many bytes.
    fn give_back(&self, bytes: u64);
}

/// The credit of a message that arrived. Its sender gets it back when this is dropped.
pub struct Hold {
    bytes: u64,
    to: Arc<dyn GiveBack>,
}

impl Hold {
    pub(crate) fn new(bytes: u64, to: Arc<dyn GiveBack>) -> Self {
        Self { bytes, to }
    }
}

/// Nobody's credit, where messages come from this process.
struct Free;

impl GiveBack for Free {
    fn give_back(&self, _bytes: u64) {}
}

impl Default for Hold {
    /// One that gives nothing back.
    fn default() -> Self {
        Self::new(0, Arc::new(Free))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.to.give_back(self.bytes);
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hold({})", self.bytes)
    }
}
