//! Sockets that are listened on: made here, or given by the options, so that one server can take over from
//! another.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::sync::Arc;

use tokio::runtime::Runtime;

use super::serve_options::{ServeError, ServeOptions};

/// Listens on a host and port, for [`ServeOptions::socket`]: connections wait until they are served, by
/// one server after the other.
///
/// # Errors
/// [`ServeError::Address`].
pub fn bind(host: &str, port: u16) -> Result<Arc<TcpListener>, ServeError> {
    let bind = || {
        let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
        let listener = TcpListener::bind(addresses.as_slice())?;
        listener.set_nonblocking(true)?;
        Ok(Arc::new(listener))
    };
    bind().map_err(|source| ServeError::Address { host: host.to_owned(), port, source })
}

/// The socket of the options, or a new one.
pub(super) fn main_listener(
    runtime: &Runtime,
    options: &ServeOptions,
) -> Result<(tokio::net::TcpListener, SocketAddr), ServeError> {
    let (host, port) = (&options.host, options.port);
    match &options.socket {
        Some(socket) => adopted(runtime, socket).map_err(|source| ServeError::Address {
            host: host.clone(),
            port,
            source,
        }),
        None => listening(runtime, host, port),
    }
}

fn adopted(
    runtime: &Runtime,
    socket: &TcpListener,
) -> std::io::Result<(tokio::net::TcpListener, SocketAddr)> {
    let address = socket.local_addr()?;
    let _inside = runtime.enter();
    Ok((tokio::net::TcpListener::from_std(socket.try_clone()?)?, address))
}

/// The first address of the host that can be listened on.
pub(super) fn listening(
    runtime: &Runtime,
    host: &str,
    port: u16,
) -> Result<(tokio::net::TcpListener, SocketAddr), ServeError> {
    let socket = bind(host, port)?;
    let failed = |source| ServeError::Address { host: host.to_owned(), port, source };
    adopted(runtime, &socket).map_err(failed)
}
