//! The network: one port, a runtime of its own, and an end that lets calls under way finish.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::Connected;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use super::asking::MOST_WAITING;
use super::calls::Service;
use super::connections::{Connections, Incoming};
use super::edge::Edge;
use super::edge_counts::EdgeCounts;
use super::frontend::{FrontendContext, FrontendSettings};
use super::graph_links::{GraphsDoor, follow_links};
use super::guard::Guard;
use super::network_limits::NetworkLimits;
use super::peers::peers_waiting;
use super::progress::{ProgressDoor, listen_to_leader};
use super::serve_options::{
    CALLS_OF_CONNECTION, DEFAULT_METRICS_PORT, MAX_ANSWER_BYTES, MAX_HEALTH_BYTES,
    MAX_REQUEST_BYTES, ServeError, ServeOptions, ServerTls, WINDOW_BYTES,
};
use super::sockets::{listening, main_listener};
use super::transport::{Bounded, CallNetwork, Guarded};
use crate::proto::milvus::milvus_service_server::MilvusServiceServer;

/// Connections of those who watch the server.
const METRICS_CONNECTIONS: usize = 64;
/// How often it is looked whether large messages have left memory behind.
const BETWEEN_RETURNS: Duration = Duration::from_secs(5);
/// How long a client may take to say that it is there.
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(20);
/// How long calls under way may take to finish when the server ends.
const LAST_CALLS: Duration = Duration::from_secs(10);
/// How often it is looked for what clients have left behind.
const BETWEEN_TIDYING: Duration = Duration::from_secs(60);
/// Calls that wait or compute, for each CPU. Most of them wait for the disk.
const CALLS_PER_CPU: usize = 16;

/// A server that answers. Dropped, it ends at once.
pub struct Listening {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    edge: Arc<EdgeCounts>,
    served: Served,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Listening {
    /// One that `serve` serves until it is told to stop.
    pub(super) fn begin<F>(
        runtime: Runtime,
        address: SocketAddr,
        serve: impl FnOnce(watch::Receiver<bool>) -> F,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = watch::channel(false);
        let served = runtime.spawn(serve(stopped));
        let served = Served { runtime: Some(runtime), stop: Some(stop), served: Some(served) };
        Self { address, metrics_address: None, edge: Arc::default(), served }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it tells its metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Calls under way here that only a leader answers. Where it is none after another server was said to
    /// lead, none begins.
    pub fn led_calls(&self) -> usize {
        self.edge.led()
    }

    /// Takes no more calls, and returns when those under way are answered, or some seconds later.
    pub fn stop(self) {
        self.served.stop();
    }
}

/// The threads of a server. Dropped, they end at once.
pub struct Served {
    runtime: Option<Runtime>,
    stop: Option<watch::Sender<bool>>,
    served: Option<JoinHandle<()>>,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").finish_non_exhaustive()
    }
}

impl Served {
    /// Takes no more calls, and returns when those under way are answered, or some seconds later.
    pub fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(true);
        }
        if let (Some(runtime), Some(served)) = (self.runtime.take(), self.served.take()) {
            let ended = async { tokio::time::timeout(LAST_CALLS, served).await };
            if runtime.block_on(ended).is_err() {
                tracing::warn!("some calls were cut off when the server ended");
            }
            runtime.shutdown_timeout(LAST_CALLS);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Begins to serve, on threads of its own.
///
/// # Errors
/// [`ServeError`].
pub fn listen(settings: FrontendSettings, options: &ServeOptions) -> Result<Listening, ServeError> {
    if options.auto_load && options.peers.is_some() {
        // A read would change the catalogue, where it is not answered by the leader.
        return Err(ServeError::Options(
            "a server that is one of several does not load collections that are read (auto_load)",
        ));
    }
    let runtime = runtime(options.threads)?;
    let connections = Connections::new(options.limits.clone());
    let listener = main_listener(&runtime, options)?;
    let metrics = options.metrics_port.map(|port| listening(&runtime, &options.metrics_host, port));
    let metrics = metrics.transpose()?;
    let (address, metrics_address) = (listener.1, metrics.as_ref().map(|(_, address)| *address));
    let incoming = {
        let _inside = runtime.enter();
        Incoming::new(listener.0, &connections)
    };
    let server = main_server(&runtime, options)?;
    let door = FrontendContext::new(settings, options.scheduler())
        .loading_what_is_read(options.auto_load)
        .beside(options.peers.clone())
        .on_network();
    let door = Arc::new(door);
    let guard = match &options.token {
        _ if options.authorization => {
            Guard::Users(Arc::clone(&door.settings.database), Arc::clone(&door.attempts))
        }
        Some(token) => Guard::token(token, Arc::clone(&door.attempts)),
        None => Guard::Open,
    };
    let network = CallNetwork {
        connections: Some(connections),
        request: options.limits.request,
        log: options.access_log.clone(),
    };
    let edge = Arc::clone(&door.edge);
    let entrance = Entrance { door: Arc::clone(&door), guard, network };
    let served = begin(runtime, server, entrance, incoming);
    if let (Some((listener, metrics_at)), Some(runtime), Some(stop)) =
        (metrics, &served.runtime, &served.stop)
    {
        let limits =
            NetworkLimits { connections: Some(METRICS_CONNECTIONS), ..options.limits.clone() };
        let _inside = runtime.enter();
        let incoming = Incoming::new(listener, &Connections::new(limits));
        runtime.spawn(super::watch::serve(door, (incoming, metrics_at), stop.subscribe()));
    }
    Ok(Listening { address, metrics_address, edge, served })
}

/// Answers those who watch a server until it is dropped, where metrics are told later: it lives, and is not
/// ready. `None` where they are told nowhere, or nobody has asked for the port and it is in use.
///
/// # Errors
/// The port is in use, or no thread can be made.
pub fn watch_opening(host: &str, port: Option<u16>) -> Result<Option<Listening>, ServeError> {
    let runtime = runtime(1)?;
    let (listener, address) = match port {
        Some(0) => return Ok(None),
        Some(port) => listening(&runtime, host, port)?,
        None => match listening(&runtime, host, DEFAULT_METRICS_PORT) {
            Ok(listener) => listener,
            Err(_) => return Ok(None),
        },
    };
    let limits = NetworkLimits { connections: Some(METRICS_CONNECTIONS), ..Default::default() };
    let incoming = {
        let _inside = runtime.enter();
        Incoming::new(listener, &Connections::new(limits))
    };
    let serve = |stopped| super::watch::serve_opening((incoming, address), stopped);
    Ok(Some(Listening::begin(runtime, address, serve)))
}

/// A server of the network as its options say.
pub(super) fn main_server(runtime: &Runtime, options: &ServeOptions) -> Result<Server, ServeError> {
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(options.limits.keep_alive))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_ANSWER));
    if let Some(tls) = &options.tls {
        let failed = |error: tonic::transport::Error| {
            // Its own words say no more than that it failed.
            let why =
                std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
            ServeError::Tls { why }
        };
        let _inside = runtime.enter();
        server =
            server.tls_config(tls_config(tls).timeout(options.limits.handshake)).map_err(failed)?;
    }
    Ok(server)
}

/// Begins to serve on a socket in the file system; who may write to its directory may call.
pub(super) fn listen_at(door: Arc<FrontendContext>, path: &Path) -> Result<Served, ServeError> {
    let runtime = runtime(0)?;
    let listener = {
        let _inside = runtime.enter();
        UnixListener::bind(path)
    };
    let failed = |source| ServeError::Socket { path: path.display().to_string(), source };
    let incoming = UnixListenerStream::new(listener.map_err(failed)?);
    let request = NetworkLimits::default().request;
    let network = CallNetwork { connections: None, request, log: None };
    let entrance = Entrance { door, guard: Guard::Open, network };
    Ok(begin(runtime, Server::builder(), entrance, incoming))
}

pub(super) fn runtime(threads: usize) -> Result<Runtime, ServeError> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let calls = if threads == 0 { CALLS_PER_CPU * cpus } else { threads };
    Builder::new_multi_thread()
        .enable_all()
        .thread_name("milvus")
        .worker_threads(cpus)
        .max_blocking_threads(calls + MOST_WAITING + peers_waiting())
        .build()
        .map_err(ServeError::Runtime)
}

/// What connections are encrypted with.
fn tls_config(tls: &ServerTls) -> ServerTlsConfig {
    let config = ServerTlsConfig::new().identity(Identity::from_pem(&tls.certificate, &tls.key));
    match &tls.client_ca {
        Some(ca) => config.client_ca_root(Certificate::from_pem(ca)),
        None => config,
    }
}

/// What is served, to whom, and over what.
struct Entrance {
    door: Arc<FrontendContext>,
    guard: Guard,
    network: CallNetwork,
}

fn begin<I, C>(runtime: Runtime, server: Server, entrance: Entrance, incoming: I) -> Served
where
    I: Stream<Item = std::io::Result<C>> + Send + 'static,
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let (stop, stopped) = watch::channel(false);
    runtime.spawn(tidy(Arc::downgrade(&entrance.door)));
    runtime.spawn(return_freed(Arc::downgrade(&entrance.door)));
    let served = runtime.spawn(serve(server, entrance, incoming, stopped));
    Served { runtime: Some(runtime), stop: Some(stop), served: Some(served) }
}

/// Lets go of what clients leave behind, as long as the door is there.
async fn tidy(door: Weak<FrontendContext>) {
    loop {
        tokio::time::sleep(BETWEEN_TIDYING).await;
        let Some(door) = door.upgrade() else { return };
        // It ends by itself, and a panic in it is reported where it happens.
        let _ = tokio::task::spawn_blocking(move || door.tidy()).await;
    }
}

/// Returns the memory of large messages to the system, as long as the door is there.
async fn return_freed(door: Weak<FrontendContext>) {
    loop {
        tokio::time::sleep(BETWEEN_RETURNS).await;
        let Some(door) = door.upgrade() else { return };
        if door.messages.take_left_much() {
            let _ = tokio::task::spawn_blocking(pipeann_engine::memory::return_freed).await;
        }
    }
}

async fn serve<I, C>(
    server: Server,
    Entrance { door, guard, network }: Entrance,
    incoming: I,
    mut stopped: watch::Receiver<bool>,
) where
    I: Stream<Item = std::io::Result<C>> + Send + 'static,
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let messages = Arc::clone(&door.messages);
    let progress = door.peers.clone().map(ProgressDoor);
    let connections = network.connections.clone();
    let graphs = door.peers.clone().map(|peers| GraphsDoor::service(&door, peers, connections));
    let request = network.request;
    let graphs = graphs.map(|graphs| Bounded::new(graphs, request, &messages));
    let edge = door.peers.clone().map(|peers| Edge::new(peers, Arc::clone(&door.edge)));
    if let Some(edge) = &edge {
        tokio::spawn(listen_to_leader(Arc::downgrade(edge)));
        tokio::spawn(follow_links(Arc::downgrade(edge), Arc::downgrade(&door)));
    }
    let service = MilvusServiceServer::new(Service(door))
        .max_decoding_message_size(MAX_REQUEST_BYTES)
        .max_encoding_message_size(MAX_ANSWER_BYTES);
    // Health is told to everybody: whoever asks for it knows no token.
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<MilvusServiceServer<Service>>().await;
    let health = health.max_decoding_message_size(MAX_HEALTH_BYTES);
    let served = server
        .max_concurrent_streams(CALLS_OF_CONNECTION)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .add_service(Bounded::new(health, request, &messages))
        .add_optional_service(progress)
        .add_optional_service(graphs)
        .add_service(Guarded::new(service, guard, (network, messages), edge))
        .serve_with_incoming_shutdown(incoming, async {
            // Dropped or sent, it means the same.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        });
    if let Err(error) = served.await {
        tracing::error!("the server ended: {error}");
    }
}
