//! Errors of gRPC as clients take them well, and who is answered at all.
//!
//! Clients repeat a call that ends with INTERNAL or OUT_OF_RANGE for minutes. The transport ends
//! calls so only where a request cannot be decoded or is too large, which repeating does not mend; so
//! these become INVALID_ARGUMENT and RESOURCE_EXHAUSTED, which are not repeated. A call that is not
//! served says so.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use pipeann_db::access::Proof;
use pipeann_db::database::Database;
use tonic::body::Body;
use tonic::codegen::Service as HttpService;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::server::NamedService;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use tonic::{Code, Status};

use super::access_log::{AccessLog, AnswerCode, CallEnded};
use super::asking::timeout_in;
use super::attempts::Attempts;
use super::caller::{CallerName, named_database_of};
use super::calls::called;
use super::connections::{BusyConnection, Connections};
use super::edge::Edge;
use super::freshness::users_of;
use super::leaving::LeavingAnswer;
use super::messages::{Arriving, CallMemory, Messages, grow};
use super::peers::{Peers, ReadTime};
use super::users::FIRST_PASSWORD;
use super::{repeats, rights, shown};
use crate::proto::codec::{CHARGED, DecodedBytes};

const AUTHORIZATION: &str = "authorization";
const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
const UNSERVED: HeaderValue =
    HeaderValue::from_static("this call is not served by pipeann; see docs/milvus-coverage.md");

/// Whom the service answers.
#[derive(Clone)]
pub(super) enum Guard {
    /// Anybody.
    Open,
    /// Those who send these bytes: a token, encoded.
    Token(Arc<[u8]>),
    /// Users of the database, each as far as they may.
    Users(Arc<Database>, Arc<Attempts>),
}

impl Guard {
    /// Answers those who know the token: `user:password`, or a key.
    pub(super) fn token(token: &str) -> Self {
        Self::Token(STANDARD.encode(token).into_bytes().into())
    }

    /// Lets a request pass, as the user who made it, or says why not. Proving a password takes long.
    async fn admit(
        self,
        request: &mut Request<Body>,
        peers: Option<&Arc<dyn Peers>>,
    ) -> Result<(), Status> {
        if matches!(self, Self::Open) {
            return Ok(());
        }
        let sent = request.headers().get(AUTHORIZATION);
        let sent =
            sent.ok_or_else(|| Status::unauthenticated("missing authorization in header"))?;
        let wrong = || {
            Status::unauthenticated(
                "auth check failure, please check username and password are correct",
            )
        };
        match self {
            Self::Open => Ok(()),
            Self::Token(expected) => {
                if same(&expected, sent.as_bytes()) {
                    Ok(())
                } else {
                    Err(wrong())
                }
            }
            Self::Users(database, attempts) => {
                let decoded = STANDARD.decode(sent.as_bytes()).ok();
                let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
                let (user, password) = decoded
                    .as_deref()
                    .and_then(|token| token.split_once(':'))
                    .map(|(user, password)| (user.to_owned(), password.to_owned()))
                    .ok_or_else(wrong)?;
                let access = Arc::clone(&database);
                let timeout = timeout_in(request.headers());
                // Who was right before waits for nobody, as long as the others wait for this server before
                // they answer that his password is another one.
                users_of(peers, ReadTime::Any, timeout).await;
                if !database.access().knows(&user, &password) {
                    let from = remote(request).map(|address| address.ip());
                    let waits = |from| attempts.wait(&user, from, Instant::now());
                    if let Some(wait) = from.and_then(waits) {
                        return Err(later(wait));
                    }
                    users_of(peers, ReadTime::Latest, timeout).await;
                    let named = user.clone();
                    let proof = tokio::task::spawn_blocking(move || {
                        database.access().authenticates(&named, &password, FIRST_PASSWORD)
                    });
                    match proof.await.unwrap_or(Proof::Wrong) {
                        Proof::Right => from.iter().for_each(|from| attempts.right(&user, *from)),
                        Proof::Wrong => {
                            let now = Instant::now();
                            from.iter().for_each(|from| attempts.failed(&user, *from, now));
                            return Err(wrong());
                        }
                        Proof::Busy => {
                            return Err(Status::resource_exhausted(
                                "too many passwords wait to be checked; try again",
                            ));
                        }
                    }
                }
                // What nothing lets him do is not read.
                let call = request.uri().path().rsplit('/').next().unwrap_or_default();
                let named = named_database_of(request.headers());
                let check = || rights::check_anywhere(access.access(), &user, call, named);
                let mut may = check();
                if may.is_err() && peers.is_some() {
                    users_of(peers, ReadTime::Latest, timeout).await;
                    may = check();
                }
                request.extensions_mut().insert(CallerName(user));
                may
            }
        }
    }
}

/// Refuses a password after too many wrong ones. Clients do not repeat it by themselves.
fn later(wait: Duration) -> Status {
    Status::unauthenticated(format!(
        "auth check failure, too many wrong passwords of this user from this address; \
         try again in {} s",
        wait.as_secs() + 1
    ))
}

/// The address that a request came from.
fn remote(request: &Request<Body>) -> Option<SocketAddr> {
    let extensions = request.extensions();
    let plain = extensions.get::<TcpConnectInfo>();
    let encrypted = extensions.get::<TlsConnectInfo<TcpConnectInfo>>();
    plain.or(encrypted.map(TlsConnectInfo::get_ref))?.remote_addr()
}

/// Whether bytes are the same. All of them are looked at, so that the time tells nothing about them.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

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
            let held = CallMemory::new(&messages);
            request.extensions_mut().insert(held.clone());
            let called = called(request.uri().path());
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
            tell(&mut response);
            noted.iter().for_each(|noted| noted.ended(&response));
            let held = (held.answer, peer);
            Ok(response.map(|body| Body::new(LeavingAnswer::new(body, wait, held))))
        })
    }
}

/// Changes the status of an answer that has no content.
fn tell(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    let Some(status) = headers.get(STATUS) else { return };
    let told = match Code::from_bytes(status.as_bytes()) {
        Code::Internal => Code::InvalidArgument,
        Code::OutOfRange => Code::ResourceExhausted,
        Code::Unimplemented => {
            headers.entry(MESSAGE).or_insert(UNSERVED);
            return;
        }
        _ => return,
    };
    headers.insert(STATUS, HeaderValue::from(i32::from(told)));
}
