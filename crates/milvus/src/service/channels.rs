//! Connections to other servers: one to each, made when the first call goes there.

use std::error::Error;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::codegen::http::{Request, Response};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{ConnectError, TimeoutExpired};

use super::peers::{PeerTls, ServerAt};
use super::serve_options::{CALLS_OF_CONNECTION, WINDOW_BYTES};

/// Servers that there are connections to; the one that was called longest ago gives way.
const MOST: usize = 16;
/// How long a server may take to accept a connection.
const CONNECTING: Duration = Duration::from_secs(2);
/// How long a call waits for its turn.
const TURN: Duration = Duration::from_secs(10);
/// How long a server says nothing before it is asked whether it is there, and to answer that.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Bytes of all answers of one server that it may send before they are read.
const CONNECTION_WINDOW_BYTES: u32 = 16 * WINDOW_BYTES;

/// Connections to other servers.
#[derive(Debug, Default)]
pub(super) struct Channels(Mutex<Vec<OpenChannel>>);

#[derive(Clone, Debug)]
struct OpenChannel {
    server: ServerAt,
    channel: Channel,
    /// As many calls as a server takes of one connection; what comes beyond waits here.
    turns: Arc<Semaphore>,
}

/// One of the calls under way to a server, as long as it is there.
pub(super) type CallTurn = OwnedSemaphorePermit;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum SendError {
    /// The server has not seen the call.
    Unsent(String),
    /// It may have done what was asked.
    Lost(String),
    /// It did not answer within the time of its client.
    Late,
}

impl Channels {
    /// Sends a request, and returns when its answer begins.
    pub(super) async fn send(
        &self,
        server: &ServerAt,
        request: Request<Body>,
    ) -> Result<(Response<Body>, CallTurn), SendError> {
        let (mut channel, turn) = self.channel(server).await.map_err(SendError::Unsent)?;
        poll_fn(|context| channel.poll_ready(context)).await.map_err(|error| failed(&error))?;
        let response = channel.call(request).await.map_err(|error| failed(&error))?;
        Ok((response, turn))
    }

    /// The connection to a server, and a turn of the calls under way there.
    pub(super) async fn channel(&self, server: &ServerAt) -> Result<(Channel, CallTurn), String> {
        let OpenChannel { channel, turns, .. } = self.to(server)?;
        let turn = tokio::time::timeout(TURN, turns.acquire_owned()).await;
        let turn = turn.map_err(|_| format!("{}: its calls under way do not end", server.uri))?;
        Ok((channel, turn.expect("turns are never closed")))
    }

    fn to(&self, server: &ServerAt) -> Result<OpenChannel, String> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match open.iter().position(|open| open.server == *server) {
            Some(at) => open.remove(at),
            None => {
                // One of the same name with other certificates is no more.
                open.retain(|open| open.server.uri != server.uri);
                if open.len() == MOST {
                    open.remove(0);
                }
                OpenChannel {
                    server: server.clone(),
                    channel: connecting(server)?,
                    turns: Arc::new(Semaphore::new(CALLS_OF_CONNECTION as usize)),
                }
            }
        };
        open.push(found.clone());
        Ok(found)
    }
}

/// A channel that connects at its first call, and again at a call after it was lost.
pub(super) fn connecting(server: &ServerAt) -> Result<Channel, String> {
    let unusable = |error: tonic::transport::Error| format!("{}: {}", server.uri, cause(&error));
    let mut endpoint = Endpoint::from_shared(server.uri.clone())
        .map_err(unusable)?
        .connect_timeout(CONNECTING)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    if let Some(tls) = &server.tls {
        endpoint = endpoint.tls_config(tls_config(tls)).map_err(unusable)?;
    }
    Ok(endpoint.connect_lazy())
}

fn tls_config(tls: &PeerTls) -> ClientTlsConfig {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
    if let Some(domain) = &tls.domain {
        config = config.domain_name(domain);
    }
    match &tls.identity {
        Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
        None => config,
    }
}

/// Whether a call that failed so was never sent. Only what is certain counts.
fn failed(error: &tonic::transport::Error) -> SendError {
    let mut at: Option<&dyn Error> = Some(error);
    while let Some(error) = at {
        if error.is::<ConnectError>() {
            return SendError::Unsent(cause(error));
        }
        if error.is::<TimeoutExpired>() {
            return SendError::Late;
        }
        at = error.source();
    }
    SendError::Lost(cause(error))
}

/// What an error says at its bottom; above it stands only that something failed.
fn cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

/// Of a leader that may have done what it was asked.
pub(super) fn lost_words(leader: &ServerAt, why: &str) -> String {
    format!(
        "the leader at {} was lost before it answered, and may have done what was asked: {why}",
        leader.uri
    )
}

/// Of a leader that has not.
pub(super) fn unseen_words(leader: &ServerAt, why: &str) -> String {
    format!(
        "the leader at {} cannot be reached, and has not seen this call: {why}; try again",
        leader.uri
    )
}
