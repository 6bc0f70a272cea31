//! The network over TCP: one thread for all sockets of a server or client.
//!
//! [`Tcp::send`] puts a frame behind others for the same peer, and whatever waits for a peer is then
//! written at once, as one run of TLS records, by the network thread, or by whoever sends while that
//! sleeps and nothing else is under way ([`Batch::alone`]). Several messages share a write where load makes them meet, and none waits for
//! others. The thread also reads, answers pings, dials, and calls the handler; it ends when the
//! [`Tcp`] is dropped.
//!
//! Of two servers the one with the higher number dials; clients dial every server. Connections are
//! bounded in number, in bytes that wait, and in the time they have to introduce themselves.

mod connection;
mod dispatch;
mod lane;
mod open_error;
mod settings;
mod thread;
mod tls;

#[cfg(test)]
pub(crate) mod tests;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

pub use open_error::OpenError;
pub use settings::{Identity, Limits, Settings};
pub use tls::{Tls, TlsError};

use super::{Handler, Network, Refused};
use crate::wire::{Message, PeerId};
use lane::{Peer, Shared};

/// Listens at an address. An address in use is an error of its own.
pub fn listen(address: SocketAddr) -> Result<TcpListener, OpenError> {
    TcpListener::bind(address).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => OpenError::AddressInUse(address),
        _ => OpenError::Listen { address, source },
    })
}

/// The network of one server or client.
#[derive(Debug)]
pub struct Tcp {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Tcp {
    /// Begins: a server with the listener of its address, a client without.
    pub fn open(
        settings: Settings,
        listener: Option<TcpListener>,
        handler: impl Handler + 'static,
    ) -> Result<Self, OpenError> {
        let (shared, thread) = thread::start(settings, listener, Box::new(handler))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A handle by which other threads send. It keeps nothing alive but memory.
    pub fn sender(&self) -> Sender {
        Sender(Arc::clone(&self.shared))
    }

    /// Microseconds since this network began.
    pub fn now_us(&self) -> u64 {
        self.shared.now_us()
    }
}

impl Network for Tcp {
    fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        self.shared.send(to, message)
    }
}

/// Sends over a [`Tcp`] from anywhere. Once that is dropped, every peer is down.
#[derive(Debug, Clone)]
pub struct Sender(Arc<Shared>);

impl Sender {
    /// Microseconds since the network began.
    pub fn now_us(&self) -> u64 {
        self.0.now_us()
    }

    /// Has [`Handler::due`] called soon.
    pub fn wake(&self) {
        self.due_by(0);
    }

    /// Has [`Handler::due`] called at this time, if not before.
    pub fn due_by(&self, at_us: u64) {
        self.0.due_by(at_us);
    }

    /// Sends the same way, but writes only when it is dropped: for who sends while others wait for
    /// him.
    pub fn batch(&self) -> Batch<'_> {
        Batch { shared: &self.0, peers: RefCell::default(), alone: Cell::new(false) }
    }
}

/// See [`Sender::batch`].
#[derive(Debug)]
pub struct Batch<'a> {
    shared: &'a Shared,
    peers: RefCell<Vec<Arc<Peer>>>,
    alone: Cell<bool>,
}

impl Batch<'_> {
    /// Nothing else is about to be sent: no other message would share a write, and waking the network
    /// thread would be for this one alone.
    pub fn alone(&self) {
        self.alone.set(true);
    }
}

impl Network for Batch<'_> {
    fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        self.peers.borrow_mut().extend(self.shared.put(to, message)?);
        Ok(())
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        for peer in self.peers.get_mut() {
            self.shared.push(peer, self.alone.get());
        }
    }
}

impl Network for Sender {
    fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        self.0.send(to, message)
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of a handler has been reported where it happened.
            let _ = thread.join();
        }
    }
}
