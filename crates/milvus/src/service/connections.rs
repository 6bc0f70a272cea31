//! Connections: how many there may be, of all clients and of one address, and which one gives way.
//!
//! A connection costs a descriptor, and the database needs some too. Where there are too many, the
//! one that has been idle for longest is closed for a new one, those that have never made a call
//! first: so whoever holds many idle connections keeps nobody out, himself included. One whose call
//! is under way is not closed; where all are busy, the new one is. An answer that its client does not
//! take keeps a connection busy for some seconds only.
//!
//! What has not said within some seconds that it speaks HTTP/2, or has made no call within a minute,
//! is closed too; so is what takes an answer too slowly, since nothing else ends a call whose client gives
//! no window. Clients of gRPC connect again by themselves.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::network_limits::{NetworkLimits, network_of};
use super::taking::CallUnderWay;

/// Bytes of the preface of HTTP/2, which is what a client says first.
const PREFACE_BYTES: u64 = 24;
/// How long nothing is accepted after the system refused.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// How often it is looked for connections that say nothing.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// Connections that are accepted and wait to be served.
const ACCEPTED: usize = 16;

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
    /// How many there are, by network.
    of_address: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct ClientEntry {
    born: Instant,
    /// When it said something last, in milliseconds since the beginning.
    heard_ms: AtomicU64,
    bytes: AtomicU64,
    /// Calls made.
    calls: AtomicU64,
    /// Those that are under way, or begin to come.
    under_way: Mutex<Vec<Arc<CallUnderWay>>>,
    is_closed: AtomicBool,
    /// Who waits to read, and to write.
    wakers: Mutex<[Option<Waker>; 2]>,
}

/// What a connection does. All but those that are busy may give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Business {
    Idle,
    /// All that it does is wait for its client to take answers.
    Stuck,
    /// It waits with one answer, and does something else.
    Slow,
    Busy,
}

impl ClientEntry {
    fn new(now_ms: u64) -> Arc<Self> {
        Arc::new(Self {
            born: Instant::now(),
            heard_ms: AtomicU64::new(now_ms),
            bytes: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            under_way: Mutex::default(),
            is_closed: AtomicBool::new(false),
            wakers: Mutex::default(),
        })
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut *self.wakers());
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Ends what is done with the connection where it is closed; else whoever waits is woken when it is.
    fn check<T>(
        &self,
        waits: usize,
        context: &Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_pending() {
            self.wakers()[waits] = Some(context.waker().clone());
        }
        match self.is_closed.load(Ordering::Acquire) {
            true => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
            false => done,
        }
    }

    fn wakers(&self) -> MutexGuard<'_, [Option<Waker>; 2]> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn under_way(&self) -> MutexGuard<'_, Vec<Arc<CallUnderWay>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it does, where nothing that was taken for so long means that an answer is not taken.
    fn business(&self, untaken: Duration, now: Instant) -> Business {
        let under_way = self.under_way();
        let calls = under_way.iter().filter(|call| call.has_come());
        let (mut stuck, mut busy) = (false, false);
        for call in calls {
            match call.is_stuck(untaken, now) {
                true => stuck = true,
                false => busy = true,
            }
        }
        match (stuck, busy) {
            (false, false) => Business::Idle,
            (true, false) => Business::Stuck,
            (true, true) => Business::Slow,
            (false, true) => Business::Busy,
        }
    }

    /// Whether a client takes one of its answers too slowly.
    fn is_late(&self, wait: Duration, now: Instant) -> bool {
        self.under_way().iter().any(|call| call.is_late(wait, now))
    }

    /// The smallest gives way first: who never called or takes nothing, then who was heard longest ago.
    fn worth(&self, business: Business) -> (bool, u64) {
        let has_called = self.calls.load(Ordering::Relaxed) > 0;
        (has_called && business != Business::Stuck, self.heard_ms.load(Ordering::Relaxed))
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
        let call = Arc::new(CallUnderWay::new());
        entry.under_way().push(Arc::clone(&call));
        Some(BusyConnection(Arc::new(Busy { entry, call })))
    }

    /// Takes a connection, for which another one may be closed; `None` where all are busy.
    fn admit(self: &Arc<Self>, io: TcpStream, peer: SocketAddr) -> Option<CountedConnection> {
        let address = network_of(peer.ip());
        let mut state = self.state();
        let of_address = state.of_address.get(&address).copied().unwrap_or(0);
        if of_address >= self.limits.of_address {
            self.give_way(&mut state, |other| network_of(other.ip()) == address).then_some(())?;
        } else if state.of_peer.len() >= self.all {
            self.give_way(&mut state, |_| true).then_some(())?;
        }
        let entry = ClientEntry::new(self.now_ms());
        state.add(peer, Arc::clone(&entry));
        drop(state);
        Some(CountedConnection { io, peer, entry, connections: Arc::clone(self) })
    }

    /// Closes the one that is worth least.
    fn give_way(&self, state: &mut ConnectionsState, may: impl Fn(&SocketAddr) -> bool) -> bool {
        let now = Instant::now();
        let idle =
            state.of_peer.iter().filter(|(peer, _)| may(peer)).filter_map(|(peer, entry)| {
                let business = entry.business(self.limits.untaken, now);
                (business != Business::Busy).then(|| (*peer, entry.worth(business)))
            });
        let Some((peer, _)) = idle.min_by_key(|(_, worth)| *worth) else { return false };
        if let Some(entry) = state.remove(peer, None) {
            entry.close();
        }
        true
    }

    /// Closes the one that is worth least of all.
    fn close_one(&self) {
        self.give_way(&mut self.state(), |_| true);
    }

    /// Closes those that say nothing, or take nothing.
    fn look(&self) {
        let mut state = self.state();
        let now = Instant::now();
        let mute = |entry: &ClientEntry| {
            let (age, bytes) = (entry.born.elapsed(), entry.bytes.load(Ordering::Relaxed));
            age >= self.limits.handshake && bytes < PREFACE_BYTES
                || age >= self.limits.first_call && entry.calls.load(Ordering::Relaxed) == 0
                || entry.is_late(self.limits.request, now)
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
        *self.of_address.entry(network_of(peer.ip())).or_insert(0) += 1;
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
        let network = network_of(peer.ip());
        if let Some(count) = self.of_address.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&network);
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
    call: Arc<CallUnderWay>,
}

impl BusyConnection {
    /// A call has come whole.
    pub(super) fn calls(&self) {
        if self.0.call.comes() {
            self.0.entry.calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The call that it is busy with.
    pub(super) fn call(&self) -> Arc<CallUnderWay> {
        Arc::clone(&self.0.call)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut under_way = self.entry.under_way();
        if let Some(place) = under_way.iter().position(|call| Arc::ptr_eq(call, &self.call)) {
            under_way.swap_remove(place);
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
        if read.is_ready() {
            let bytes = buffer.filled().len() - before;
            this.entry.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            this.entry.heard_ms.store(this.connections.now_ms(), Ordering::Relaxed);
        }
        this.entry.check(0, context, read)
    }
}

impl AsyncWrite for CountedConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write(context, bytes);
        this.entry.check(1, context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write_vectored(context, bytes);
        this.entry.check(1, context, written)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_its_client_alone_is_worth_no_more_than_who_never_called() {
        let entry = ClientEntry::new(7);
        let untaken = Duration::from_secs(5);
        let after =
            |seconds| entry.business(untaken, Instant::now() + Duration::from_secs(seconds));
        let begin = || {
            let call = Arc::new(CallUnderWay::new());
            entry.under_way().push(Arc::clone(&call));
            BusyConnection(Arc::new(Busy { entry: Arc::clone(&entry), call }))
        };
        let first = begin();
        assert_eq!(after(60), Business::Idle, "it has not come yet");
        first.calls();
        assert_eq!(after(60), Business::Busy);
        first.call().gave();
        assert_eq!((after(1), after(60)), (Business::Busy, Business::Stuck));
        let second = begin();
        second.calls();
        assert_eq!(after(60), Business::Slow);
        let worth = [Business::Stuck, Business::Slow, Business::Idle].map(|it| entry.worth(it));
        assert_eq!(worth, [(false, 7), (true, 7), (true, 7)]);
        drop(first);
        assert_eq!(after(60), Business::Busy);
        drop(second);
        assert_eq!((after(60), entry.under_way().len()), (Business::Idle, 0));
    }
}
