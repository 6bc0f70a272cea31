//! Why a network does not begin.

use std::io;
use std::net::SocketAddr;

/// Why a network does not begin.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else listens there.
    #[error("the address {0} is already in use")]
    AddressInUse(SocketAddr),
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// This server is not in the topology.
    #[error("the topology has no server {0}")]
    UnknownServer(u32),
    /// A limit contradicts another.
    #[error("{0}")]
    Limits(&'static str),
    /// The system gives no queue of events or no thread.
    #[error("the network thread cannot begin: {0}")]
    Thread(#[source] io::Error),
}
