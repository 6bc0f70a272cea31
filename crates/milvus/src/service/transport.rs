//! Errors of gRPC as clients take them well, and what bounds a call whoever makes it.
//!
//! Clients repeat a call that ends with INTERNAL or OUT_OF_RANGE for minutes. The transport ends
//! calls so only where a request cannot be decoded or is too large, which repeating does not mend; so
//! these become INVALID_ARGUMENT and RESOURCE_EXHAUSTED, which are not repeated. A call that is not
//! served says so.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tonic::Code;
use tonic::body::Body;
use tonic::codegen::Service as HttpService;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::server::NamedService;

use super::access_log::{AccessLog, AnswerCode, CallEnded};
use super::caller::{CallerName, named_database_of};
use super::calls::called;
use super::connections::{BusyConnection, Connections};
use super::edge::Edge;
use super::guard::{Guard, remote};
use super::leaving::LeavingAnswer;
use super::marks::FORWARDED;
use super::messages::{Arriving, CallMemory, Messages, Share, grow};
use super::{repeats, shown};
use crate::proto::codec::{CHARGED, DecodedBytes};

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
const UNSERVED: &str = "is not served by pipeann; see docs/milvus-coverage.md";

/// A service whose errors are told so, and which answers only those whom its guard lets pass.
#[derive(Clone)]
pub(super) struct Guarded<S> {
    service: S,
    guard: Guard,
    network: CallNetwork,
    messages: Arc<Messages>,
    /// Where there are other servers.
    edge: Option<Arc<Edge>>,
}

/// What is known of the network that calls come through.
#[derive(Clone)]
pub(super) struct CallNetwork {
    /// Where connections are counted, the count.
    pub(super) connections: Option<Arc<Connections>>,
    /// How long a request may take to come.
    pub(super) request: Duration,
    /// Where calls are noted, if they are.
    pub(super) log: Option<Arc<dyn AccessLog>>,
}

impl CallNetwork {
    /// The connection of a request.
    fn peer(&self, request: &Request<Body>) -> Option<BusyConnection> {
        self.connections.as_ref()?.peer(remote(request)?)
    }
}

/// What is noted of a call, as far as it is known before it is answered.
struct Noted {
    log: Arc<dyn AccessLog>,
    path: String,
    database: String,
    from: Option<SocketAddr>,
    user: Option<String>,
    since: Instant,
}

impl Noted {
    fn new(network: &CallNetwork, request: &Request<Body>) -> Option<Self> {
        Some(Self {
            log: Arc::clone(network.log.as_ref()?),
            path: request.uri().path().to_owned(),
            database: named_database_of(request.headers()).to_owned(),
            from: remote(request),
            user: None,
            since: Instant::now(),
        })
    }

    fn ended(&self, response: &Response<Body>) {
        let status = response.headers().get(STATUS).map(HeaderValue::as_bytes);
        self.log.ended(&CallEnded {
            call: self.path.rsplit('/').next().unwrap_or_default(),
            user: self.user.as_deref(),
            from: self.from,
            database: &self.database,
            code: response.extensions().get::<AnswerCode>().map(|AnswerCode(code)| *code),
            grpc_status: status.map_or(0, |status| Code::from_bytes(status).into()),
            took: self.since.elapsed(),
        });
    }
}

impl<S> Guarded<S> {
    pub(super) fn new(
        service: S,
        guard: Guard,
        (network, messages): (CallNetwork, Arc<Messages>),
        edge: Option<Arc<Edge>>,
    ) -> Self {
        Self { service, guard, network, messages, edge }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> HttpService<Request<Body>> for Guarded<S>
where
    S: HttpService<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The one that was asked whether it is ready answers; the copy is for the next request.
        let copy = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, copy);
        let (guard, network) = (self.guard.clone(), self.network.clone());
        let (messages, edge) = (Arc::clone(&self.messages), self.edge.clone());
        let arrived = Instant::now();
        Box::pin(async move {
            let mut noted = Noted::new(&network, &request);
            let peers = edge.as_ref().map(|edge| &edge.peers);
            let admitted = guard.admit(&mut request, peers).await;
            let admitted = admitted.and_then(|()| shown::check(request.headers_mut(), peers));
            if let (Some(noted), Some(CallerName(user))) = (&mut noted, request.extensions().get())
            {
                noted.user = Some(user.clone());
            }
            if let Err(refusal) = admitted {
                let refused = refusal.into_http();
                noted.iter().for_each(|noted| noted.ended(&refused));
                return Ok(refused);
            }
            let peer = network.peer(&request);
            let is_server = request.headers().contains_key(FORWARDED);
            let held = CallMemory::new(&messages);
            request.extensions_mut().insert(held.clone());
            let path = request.uri().path().to_owned();
            let called = called(&path);
            let wait = network.request;
            let request = request.map(|body| {
                Body::new(Arriving::new(body, Arc::clone(&held.request), wait, peer.clone()))
            });
            let request = match repeats::named_by_client(request, called).await {
                Ok(request) => request,
                Err(status) => {
                    let refused = status.into_http();
                    noted.iter().for_each(|noted| noted.ended(&refused));
                    return Ok(refused);
                }
            };
            let share = Arc::clone(&held.request);
            let charged = DecodedBytes::new(move |bytes| grow(&share, bytes));
            let answered = async move {
                match &edge {
                    Some(edge) => edge.answer(service, request, called, arrived).await,
                    None => service.call(request).await,
                }
            };
            let mut response = CHARGED.scope(charged, answered).await?;
            tell(&mut response, &path);
            noted.iter().for_each(|noted| noted.ended(&response));
            Ok(response.map(|body| {
                // Other servers keep a connection for calls of many clients.
                let (own, peer) = if is_server { (peer, None) } else { (None, peer) };
                Body::new(LeavingAnswer::new(body, wait, (held.answer, own), peer))
            }))
        })
    }
}

/// A service for everybody, whose requests are bounded in time and counted as all others are.
#[derive(Clone)]
pub(super) struct Bounded<S> {
    service: S,
    /// How long a request may take to come.
    request: Duration,
    messages: Arc<Messages>,
}

impl<S> Bounded<S> {
    pub(super) fn new(service: S, request: Duration, messages: &Arc<Messages>) -> Self {
        Self { service, request, messages: Arc::clone(messages) }
    }
}

impl<S: NamedService> NamedService for Bounded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> HttpService<Request<Body>> for Bounded<S>
where
    S: HttpService<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let share = Arc::new(Mutex::new(Share::new(&self.messages)));
        let wait = self.request;
        self.service.call(request.map(|body| Body::new(Arriving::new(body, share, wait, None))))
    }
}

/// Changes the status of an answer that has no content to the call at this path.
fn tell(response: &mut Response<Body>, path: &str) {
    let headers = response.headers_mut();
    let Some(status) = headers.get(STATUS) else { return };
    let told = match Code::from_bytes(status.as_bytes()) {
        Code::Internal => Code::InvalidArgument,
        Code::OutOfRange => Code::ResourceExhausted,
        Code::Unimplemented => {
            let call = path.rsplit('/').next().unwrap_or_default();
            // A path has nothing that a header cannot have.
            if let Ok(unserved) = HeaderValue::from_str(&format!("{call} {UNSERVED}")) {
                headers.entry(MESSAGE).or_insert(unserved);
            }
            return;
        }
        _ => return,
    };
    headers.insert(STATUS, HeaderValue::from(i32::from(told)));
}
