//! Connections: how many there may be, of all clients and of one address, and which one gives way.
//!
//! A connection costs a descriptor, and the database needs some too. Where there are too many, the
//! one that has been idle for longest is closed for a new one, those that have never made a call
//! first: so whoever holds many idle connections keeps nobody out, himself included. One whose call
//! is under way is never closed; where all are busy, the new one is.
//!
//! What has not said within some seconds that it speaks HTTP/2, or has made no call within a minute,
//! is closed too. Clients of gRPC connect again by themselves.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// How much of the network clients may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Connections of all clients; three quarters of the descriptors unless given.
    pub connections: Option<usize>,
    /// Connections of one address.
    pub of_address: usize,
    /// How long a connection may take to begin to speak, encrypted or not.
    pub handshake: Duration,
    /// How long a connection stays that makes no call.
    pub first_call: Duration,
    /// How long a request may take to come, and an answer to be taken by the client; more by a second
    /// for each 32 KiB of it that did.
    pub request: Duration,
    /// How long a client says nothing before it is asked whether it is there.
    pub keep_alive: Duration,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            connections: None,
            of_address: 2_000,
            handshake: Duration::from_secs(10),
            first_call: Duration::from_secs(60),
            request: Duration::from_secs(30),
            keep_alive: Duration::from_secs(60),
        }
    }
}

/// Connections where the system does not bound descriptors.
const MOST: usize = 65_536;
/// Bytes of the preface of HTTP/2, which is what a client says first.
const PREFACE_BYTES: u64 = 24;
/// How long nothing is accepted after the system refused.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// How often it is looked for connections that say nothing.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// Connections that are accepted and wait to be served.
const ACCEPTED: usize = 16;

impl NetworkLimits {
    fn all(&self) -> usize {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let most = (descriptors / 4).saturating_mul(3).min(MOST);
        self.connections.map_or(most, |asked| asked.min(most)).max(1)
    }
}

/// The connections that there are.
#[derive(Debug)]
pub(super) struct Connections {
    limits: NetworkLimits,
    all: usize,
    began: Instant,
    state: Mutex<ConnectionsState>,
}

#[derive(Debug, Default)]
struct ConnectionsState {
    of_peer: HashMap<SocketAddr, Arc<ClientEntry>>,
    of_address: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct ClientEntry {
    born: Instant,
    /// When it said something last, in milliseconds since the beginning.
    heard_ms: AtomicU64,
    bytes: AtomicU64,
    /// Calls made, and those of them that are under way.
    calls: AtomicU64,
    busy: AtomicUsize,
    is_closed: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl ClientEntry {
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    /// The smallest gives way first.
    fn worth(&self) -> (bool, u64) {
        let has_called = self.calls.load(Ordering::Relaxed) > 0;
        (has_called, self.heard_ms.load(Ordering::Relaxed))
    }
}

impl Connections {
    pub(super) fn new(limits: NetworkLimits) -> Arc<Self> {
        let (all, began) = (limits.all(), Instant::now());
        Arc::new(Self { limits, all, began, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, ConnectionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A connection by the address of its client.
    pub(super) fn peer(&self, address: SocketAddr) -> Option<BusyConnection> {
        let entry = self.state().of_peer.get(&address).cloned()?;
        Some(BusyConnection(Arc::new(Busy { entry, has_called: AtomicBool::new(false) })))
    }

    /// Takes a connection, for which another one may be closed; `None` where all are busy.
    fn admit(self: &Arc<Self>, io: TcpStream, peer: SocketAddr) -> Option<CountedConnection> {
        let address = peer.ip();
        let mut state = self.state();
        let of_address = state.of_address.get(&address).copied().unwrap_or(0);
        if of_address >= self.limits.of_address {
            self.give_way(&mut state, |other| other.ip() == address).then_some(())?;
        } else if state.of_peer.len() >= self.all {
            self.give_way(&mut state, |_| true).then_some(())?;
        }
        let entry = Arc::new(ClientEntry {
            born: Instant::now(),
            heard_ms: AtomicU64::new(self.now_ms()),
            bytes: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            waker: Mutex::default(),
        });
        state.add(peer, Arc::clone(&entry));
        drop(state);
        Some(CountedConnection { io, peer, entry, connections: Arc::clone(self) })
    }

    /// Closes the one that is worth least.
    fn give_way(&self, state: &mut ConnectionsState, may: impl Fn(&SocketAddr) -> bool) -> bool {
        let idle = state.of_peer.iter().filter(|(peer, entry)| may(peer) && !entry.is_busy());
        let Some((&peer, _)) = idle.min_by_key(|(_, entry)| entry.worth()) else { return false };
        if let Some(entry) = state.remove(peer, None) {
            entry.close();
        }
        true
    }

    /// Closes the one that is worth least of all.
    fn close_one(&self) {
        self.give_way(&mut self.state(), |_| true);
    }

    /// Closes those that say nothing.
    fn look(&self) {
        let mut state = self.state();
        let mute = |entry: &ClientEntry| {
            let (age, bytes) = (entry.born.elapsed(), entry.bytes.load(Ordering::Relaxed));
            age >= self.limits.handshake && bytes < PREFACE_BYTES
                || age >= self.limits.first_call && entry.calls.load(Ordering::Relaxed) == 0
        };
        let mute: Vec<SocketAddr> =
            state.of_peer.iter().filter(|(_, e)| mute(e)).map(|(peer, _)| *peer).collect();
        for peer in mute {
            if let Some(entry) = state.remove(peer, None) {
                entry.close();
            }
        }
    }
}

impl ConnectionsState {
    fn add(&mut self, peer: SocketAddr, entry: Arc<ClientEntry>) {
        self.remove(peer, None);
        self.of_peer.insert(peer, entry);
        *self.of_address.entry(peer.ip()).or_insert(0) += 1;
    }

    /// Counts one no more, or only if it is still `this` one.
    fn remove(
        &mut self,
        peer: SocketAddr,
        this: Option<&Arc<ClientEntry>>,
    ) -> Option<Arc<ClientEntry>> {
        let found = self.of_peer.get(&peer)?;
        if this.is_some_and(|this| !Arc::ptr_eq(this, found)) {
            return None;
        }
        if let Some(count) = self.of_address.get_mut(&peer.ip()) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&peer.ip());
            }
        }
        self.of_peer.remove(&peer)
    }
}

/// The connection of a call, which is busy from when the call has come until this is dropped.
#[derive(Clone, Debug)]
pub(super) struct BusyConnection(Arc<Busy>);

#[derive(Debug)]
struct Busy {
    entry: Arc<ClientEntry>,
    has_called: AtomicBool,
}

impl BusyConnection {
    /// A call has come whole.
    pub(super) fn calls(&self) {
        if !self.0.has_called.swap(true, Ordering::Relaxed) {
            self.0.entry.calls.fetch_add(1, Ordering::Relaxed);
            self.0.entry.busy.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.has_called.load(Ordering::Relaxed) {
            self.entry.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A connection that is counted as long as it is there.
#[derive(Debug)]
pub(super) struct CountedConnection {
    io: TcpStream,
    peer: SocketAddr,
    entry: Arc<ClientEntry>,
    connections: Arc<Connections>,
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.connections.state().remove(self.peer, Some(&self.entry));
    }
}

impl Connected for CountedConnection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.io.connect_info()
    }
}

impl AsyncRead for CountedConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        if read.is_pending() {
            let waker = Some(context.waker().clone());
            *this.entry.waker.lock().unwrap_or_else(PoisonError::into_inner) = waker;
        } else {
            let bytes = buffer.filled().len() - before;
            this.entry.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            this.entry.heard_ms.store(this.connections.now_ms(), Ordering::Relaxed);
        }
        if this.entry.is_closed.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        read
    }
}

impl AsyncWrite for CountedConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }
}

/// Connections as they come. Nothing is listened for any more when it is dropped.
pub(super) struct Incoming {
    accepted: mpsc::Receiver<CountedConnection>,
    tasks: [JoinHandle<()>; 2],
}

impl Incoming {
    /// To be called on the runtime that serves them.
    pub(super) fn new(listener: TcpListener, connections: &Arc<Connections>) -> Self {
        let (to, accepted) = mpsc::channel(ACCEPTED);
        let tasks = [
            tokio::spawn(accept(listener, Arc::clone(connections), to)),
            tokio::spawn(watch(Arc::downgrade(connections))),
        ];
        Self { accepted, tasks }
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Option<CountedConnection> {
        self.accepted.recv().await
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Stream for Incoming {
    type Item = io::Result<CountedConnection>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().accepted.poll_recv(context).map(|accepted| accepted.map(Ok))
    }
}

async fn accept(
    listener: TcpListener,
    connections: Arc<Connections>,
    to: mpsc::Sender<CountedConnection>,
) {
    loop {
        match listener.accept().await {
            Ok((io, peer)) => {
                // Where the system does not know of it, answers are a little later.
                let _ = io.set_nodelay(true);
                if let Some(connection) = connections.admit(io, peer)
                    && to.send(connection).await.is_err()
                {
                    return;
                }
            }
            Err(error) => {
                // Commonly no descriptor is left: it would be told again at once, and for ever.
                tracing::debug!("a connection is not accepted: {error}");
                connections.close_one();
                tokio::time::sleep(AFTER_REFUSAL).await;
            }
        }
    }
}

async fn watch(connections: Weak<Connections>) {
    loop {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        let Some(connections) = connections.upgrade() else { return };
        connections.look();
    }
}
