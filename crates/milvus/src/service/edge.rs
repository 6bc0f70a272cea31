//! Calls that another server answers: sent on as the bytes that came, and answered with those that come
//! back.
//!
//! What the table of calls sends to the leader goes there, unless this server leads; a page of an
//! iterator goes to the server that keeps its moment. A request is read whole before it goes on, so that
//! a client that sends slowly holds up nobody but itself, and bounded and counted as every other one. A
//! call that was sent on once is never sent on again: where two servers each think that the other leads,
//! it ends.
//!
//! A change that has an id is sent again until it is answered: whoever leads by then knows whether it was
//! made. Any other call is sent a second time only where it is certain that nobody has begun it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codegen::Service as HttpService;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};
use tonic::transport::Channel;
use tonic::{Status, TimeoutExpired};

use super::access_log::AnswerCode;
use super::asking::{TIMEOUT, timeout_in, timeout_text};
use super::channels::{CallTurn, Channels, SendError, lost_words, unseen_words};
use super::edge_counts::{EdgeCounts, SentOn};
use super::hedged::HedgedRead;
use super::hedging::{Hedging, ReadKind};
use super::marks::{FAILED, FORWARDED, READ_AFTER, REFUSED, WRITTEN, does_not_lead, is_unsettled};
use super::moments::owner;
use super::peers::{LeaderAt, Peers, ServerAt};
use super::relayed_body::RelayedBody;
use super::repeats;
use super::routes::{LocalRead, Route, ServedCall};
use super::whole::{Arrived, GuaranteeField, WholeRequest};
use super::whole_answer;

/// How long a call waits for an election at most.
const ELECTION: Duration = Duration::from_secs(5);
/// Calls that wait for one; more are refused at once.
const MOST_WAITING: usize = 1024;
/// How long a change is sent again at most, after its answer was lost: longer than an election after
/// a lease.
const REPEATED: Duration = Duration::from_secs(30);
/// How long another leader than the one that was lost is waited for, before it is asked again.
const BETWEEN_TRIES: Duration = Duration::from_millis(250);
/// How long a change is held back at most that has not come to all servers.
const EVERYWHERE: Duration = Duration::from_secs(30);
/// How long a server that was elected and does not lead yet is left alone at first; then twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// How often it is looked meanwhile who leads.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// See the module's description.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) peers: Arc<dyn Peers>,
    channels: Channels,
    counts: Arc<EdgeCounts>,
    /// Those who may wait for an election.
    waiting: Semaphore,
    hedging: Hedging,
    /// Whose turn it is to be asked beside this server.
    turn: AtomicUsize,
    /// The newest timestamp of a change that was sent on.
    written: AtomicU64,
    /// Whether this server has no data, so that others answer everything.
    away: bool,
}

/// Who is asked before this server, or beside it.
enum AskedFirst {
    /// The leader, where that is another one.
    Leader,
    /// For a read, who keeps its moment, which stands in this field; else another one where this one is late.
    Others(Option<GuaranteeField>),
}

/// A call that is to be sent on.
pub(super) struct Outgoing {
    parts: Parts,
    whole: WholeRequest,
    arrived: Instant,
    /// How long its client waits.
    timeout: Option<Duration>,
    /// Whether it is a change, which is applied once however often it is sent.
    once: bool,
}

impl Edge {
    pub(super) fn new(peers: Arc<dyn Peers>, counts: Arc<EdgeCounts>) -> Arc<Self> {
        Arc::new(Self::of(peers, counts, false))
    }

    /// That of a server without data.
    pub(super) fn away(peers: Arc<dyn Peers>) -> Arc<Self> {
        Arc::new(Self::of(peers, Arc::default(), true))
    }

    fn of(peers: Arc<dyn Peers>, counts: Arc<EdgeCounts>, away: bool) -> Self {
        let waiting = Semaphore::new(MOST_WAITING);
        Self {
            peers,
            channels: Channels::default(),
            counts,
            waiting,
            hedging: Hedging::default(),
            turn: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            away,
        }
    }

    /// Answers a request that came at some time, and is this call where it is one that is served: by this
    /// service, or by another server's.
    pub(super) async fn answer<S>(
        &self,
        mut here: S,
        request: Request<Body>,
        call: Option<&ServedCall>,
        arrived: Instant,
    ) -> Result<Response<Body>, Infallible>
    where
        S: HttpService<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
    {
        let marked = request.headers().contains_key(FORWARDED);
        let timeout = timeout_in(request.headers());
        let (name, route) = call.map_or(("", Route::Process), |call| (call.name, call.route));
        let takes_away = call.is_some_and(ServedCall::takes_away);
        let once = call.is_some_and(ServedCall::is_applied_once);
        let begun = || (route == Route::Leader).then(|| self.counts.begin_led());
        let led = begun();
        let kind = ReadKind::of(name);
        let asked = match (route, kind) {
            (Route::Leader, _) if self.peers.leader() == LeaderAt::Here => {
                (once && !marked).then_some(AskedFirst::Leader)
            }
            (Route::Leader, _) if marked => return Ok(does_not_lead().into_http()),
            (Route::Leader, _) => Some(AskedFirst::Leader),
            (Route::Local(LocalRead::Rows), Some(kind)) if !marked => {
                Some(AskedFirst::Others(GuaranteeField::of(kind)))
            }
            _ if self.away && !marked => Some(AskedFirst::Leader),
            _ => None,
        };
        let Some(asked) = asked else {
            let mut response = here.call(request).await?;
            if marked && kind.is_some() {
                tell_failure(&mut response);
            }
            if marked && once {
                let written = HeaderValue::from(self.peers.timestamp());
                response.headers_mut().insert(WRITTEN, written);
            }
            if takes_away {
                self.everywhere(end(arrived, timeout, EVERYWHERE)).await;
            }
            return Ok(response);
        };
        // Only where it may be answered here does it hold up who hands the lead over.
        drop(led);
        let (mut parts, body) = request.into_parts();
        let whole = match WholeRequest::read(body).await {
            Ok(Arrived::Whole(whole)) => whole,
            // The service refuses it, in its own words, before it is decoded.
            Ok(Arrived::TooLarge(body)) => {
                return here.call(Request::from_parts(parts, body)).await;
            }
            Err(status) => return Ok(status.into_http()),
        };
        if once {
            repeats::name(&mut parts.headers);
        }
        let call = Outgoing { parts, whole, arrived, timeout, once };
        if let AskedFirst::Others(moment) = asked {
            return self.answer_read(here, &call, kind, moment).await;
        }
        loop {
            if let Some(response) = self.ask_leader(&call).await {
                return Ok(response);
            }
            let led = begun();
            let response = here.clone().call(call.as_request()).await?;
            drop(led);
            if once && is_unsettled(&response) && Instant::now() < call.last_try() {
                tokio::time::sleep(BETWEEN_LOOKS).await;
                continue;
            }
            if takes_away {
                self.everywhere(end(arrived, timeout, EVERYWHERE)).await;
            }
            return Ok(response);
        }
    }

    /// Answers a read, by whoever keeps its moment if it has one, or by this server or another one.
    async fn answer_read<S>(
        &self,
        mut here: S,
        call: &Outgoing,
        kind: Option<ReadKind>,
        moment: Option<GuaranteeField>,
    ) -> Result<Response<Body>, Infallible>
    where
        S: HttpService<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
    {
        let keeper = moment.and_then(|field| owner(call.whole.guarantee(field)));
        let answered = match self.ask_keeper(call, keeper).await {
            None if self.away => self.ask_leader(call).await,
            answered => answered,
        };
        if let Some(response) = answered {
            return Ok(response);
        }
        // The pages of a moment are those of who keeps it.
        match kind.filter(|_| keeper.is_none()) {
            Some(kind) => Ok(self.read(kind, here, call).await),
            None => here.call(call.as_request()).await,
        }
    }

    /// Asks another server something of its own.
    pub(super) async fn ask(
        &self,
        server: &ServerAt,
        request: Request<Body>,
    ) -> Result<Response<Body>, SendError> {
        self.channels.send(server, request).await.map(|(response, _)| response)
    }

    /// A connection to another server, and a turn of its calls.
    pub(super) async fn channel(&self, server: &ServerAt) -> Result<(Channel, CallTurn), String> {
        self.channels.channel(server).await
    }

    /// Has a page answered by the server that keeps its moment; `None` where that is this one, or
    /// nobody any more.
    async fn ask_keeper(&self, call: &Outgoing, keeper: Option<u8>) -> Option<Response<Body>> {
        let keeper = keeper.filter(|keeper| *keeper != self.peers.number())?;
        let peers = Arc::clone(&self.peers);
        // Where it does not know the number, it waits for etcd.
        let server = tokio::task::spawn_blocking(move || peers.server(keeper)).await.ok()??;
        self.counts.sent(SentOn::Iterator);
        Some(match self.send(&server, call).await {
            Ok(response) => response,
            Err(SendError::Late) => late(),
            Err(SendError::Unsent(why) | SendError::Lost(why)) => unavailable(format!(
                "the server at {}, which began this iterator, cannot be reached: {why}; try again",
                server.uri
            )),
        })
    }

    /// Answers a read, here or by another server where this one is late or fails.
    async fn read<S>(&self, kind: ReadKind, mut here: S, call: &Outgoing) -> Response<Body>
    where
        S: HttpService<Request<Body>, Response = Response<Body>, Error = Infallible>,
    {
        let of_here = async {
            let Ok(response) = here.call(call.as_request()).await;
            response
        };
        let there = || Some(self.send_read(self.another()?, call));
        let read = HedgedRead { kind, hedging: &self.hedging, counts: &self.counts };
        let mut response = read.answer(of_here, there).await;
        response.headers_mut().remove(FAILED);
        response
    }

    /// One of the others, each in turn.
    fn another(&self) -> Option<ServerAt> {
        let mut others = self.peers.others();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        (!others.is_empty()).then(|| others.swap_remove(turn % others.len()))
    }

    /// Has a read answered by another server from data that is as new as what is here; all of the answer.
    async fn send_read(
        &self,
        server: ServerAt,
        call: &Outgoing,
    ) -> Result<Response<Body>, SendError> {
        let mut request = self.marked(&server, call);
        let seen = self.peers.timestamp().max(self.written.load(Ordering::Relaxed));
        request.headers_mut().insert(READ_AFTER, HeaderValue::from(seen));
        whole(self.channels.send(&server, request).await?).await
    }

    /// Takes what is between servers off a leader's answer, and remembers it.
    fn note_written(&self, mut response: Response<Body>) -> Response<Body> {
        let written = response.headers_mut().remove(WRITTEN);
        if let Some(timestamp) = written.and_then(|it| it.to_str().ok()?.parse().ok()) {
            self.peers.wrote(timestamp);
            self.written.fetch_max(timestamp, Ordering::Relaxed);
        }
        response
    }

    /// Has a call answered by the leader; `None` where that is this server.
    async fn ask_leader(&self, call: &Outgoing) -> Option<Response<Body>> {
        let patience = call.patience();
        let mut tried: Option<(ServerAt, String)> = None;
        let mut reason = SentOn::Leader;
        let mut pause = FIRST_PAUSE;
        let mut refusals = 0;
        // Why nobody knows yet whether it was done.
        let mut lost: Option<String> = None;
        loop {
            let until = match lost {
                Some(_) => call.last_try().min(Instant::now() + BETWEEN_TRIES),
                None => patience,
            };
            let server = match self.look(tried.as_ref().map(|(server, _)| server), until).await {
                LeaderAt::Here => return None,
                LeaderAt::There(server) => server,
                LeaderAt::Unknown(_) if lost.is_some() && Instant::now() < call.last_try() => {
                    tokio::time::sleep(BETWEEN_LOOKS).await;
                    continue;
                }
                LeaderAt::Unknown(why) => {
                    let nobody = format!("no server leads now: {why}; try again");
                    return Some(unavailable(lost.unwrap_or(nobody)));
                }
            };
            self.counts.sent(reason);
            let sent = self.send_whole(&server, call).await;
            let why = match sent.map(|response| self.note_written(response)) {
                Ok(response) if response.headers().contains_key(REFUSED) => {
                    reason = SentOn::NotLeading;
                    // It may have been elected and not have begun to lead; or another one is, meanwhile.
                    if Instant::now() + pause < patience {
                        tokio::time::sleep(pause).await;
                        pause *= 2;
                        tried = None;
                        continue;
                    }
                    "it does not lead".to_owned()
                }
                Ok(response) if call.once && is_unsettled(&response) => {
                    if Instant::now() >= call.last_try() {
                        return Some(response);
                    }
                    lost = Some(format!("the leader at {} leads no more", server.uri));
                    "it leads no more".to_owned()
                }
                Ok(response) => return Some(response),
                Err(SendError::Unsent(why)) => {
                    reason = SentOn::Unreachable;
                    why
                }
                Err(SendError::Late) => return Some(late()),
                Err(SendError::Lost(why)) => {
                    let said = lost_words(&server, &why);
                    if !call.once {
                        return Some(unavailable(said));
                    }
                    lost = Some(said);
                    why
                }
            };
            tracing::debug!(server = server.uri, why, "a call was not taken by the leader");
            refusals += 1;
            match &lost {
                Some(said) if Instant::now() >= call.last_try() => {
                    return Some(unavailable(said.clone()));
                }
                None if refusals == 2 => {
                    return Some(unavailable(unseen_words(&server, &why)));
                }
                Some(_) | None => {}
            }
            tried = Some((server, why));
            if lost.is_some() {
                // Where too many wait, nobody waits for an election.
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
        }
    }

    /// Who leads, as soon as that is somebody, and another one than was tried, or at the end of the
    /// patience.
    async fn look(&self, tried: Option<&ServerAt>, patience: Instant) -> LeaderAt {
        let mut place = None;
        loop {
            let leader = self.peers.leader();
            let waits = match &leader {
                LeaderAt::Here => false,
                LeaderAt::There(server) => tried == Some(server),
                LeaderAt::Unknown(_) => true,
            };
            if !waits || Instant::now() >= patience {
                return leader;
            }
            if place.is_none() {
                let Ok(free) = self.waiting.try_acquire() else { return leader };
                place = Some(free);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn send(&self, server: &ServerAt, call: &Outgoing) -> Result<Response<Body>, SendError> {
        let request = self.marked(server, call);
        let (mut response, turn) = self.channels.send(server, request).await?;
        // Between servers; here the answer goes on whatever it says.
        response.headers_mut().remove(FAILED);
        Ok(response.map(|body| Body::new(RelayedBody::new(body, turn))))
    }

    /// As [`send`](Self::send); the answer to a change is read whole, since it can be asked for again.
    async fn send_whole(
        &self,
        server: &ServerAt,
        call: &Outgoing,
    ) -> Result<Response<Body>, SendError> {
        if !call.once {
            return self.send(server, call).await;
        }
        let request = self.marked(server, call);
        whole(self.channels.send(server, request).await?).await
    }
}

/// All of an answer.
async fn whole((response, _turn): (Response<Body>, CallTurn)) -> Result<Response<Body>, SendError> {
    let (parts, body) = response.into_parts();
    match whole_answer::read(body).await {
        Ok(body) => Ok(Response::from_parts(parts, body)),
        Err(status) => Err(SendError::Lost(status.message().to_owned())),
    }
}

/// Tells the server that sent a read on that it failed; what was said stands inside the answer.
fn tell_failure(response: &mut Response<Body>) {
    let code = AnswerCode::of(response);
    if code != 0 {
        response.headers_mut().insert(FAILED, HeaderValue::from(code));
    }
}

/// Until when something is waited for: a client is to be told before it goes, and nobody waits longer
/// than this.
fn end(arrived: Instant, timeout: Option<Duration>, most: Duration) -> Instant {
    arrived + timeout.map_or(most, |timeout| most.min(timeout / 8 * 7))
}

impl Outgoing {
    /// Until when it may wait for somebody who takes it; its client is to learn why it was in vain.
    fn patience(&self) -> Instant {
        let most = self.timeout.map_or(ELECTION, |timeout| ELECTION.min(timeout / 4 * 3));
        self.arrived + most
    }

    /// What is sent.
    pub(super) fn marked(&self, by: u8) -> Request<Body> {
        let mut headers = self.parts.headers.clone();
        headers.insert(FORWARDED, HeaderValue::from(u16::from(by)));
        if let Some(timeout) = self.timeout {
            let left = timeout_text(timeout.saturating_sub(self.arrived.elapsed()));
            headers.insert(TIMEOUT, left.parse().expect("digits and a unit"));
        }
        self.with_headers(headers)
    }

    /// Until when it may be sent again after its answer was lost.
    fn last_try(&self) -> Instant {
        end(self.arrived, self.timeout, REPEATED)
    }

    /// As it came.
    fn as_request(&self) -> Request<Body> {
        let mut request = self.with_headers(self.parts.headers.clone());
        *request.extensions_mut() = self.parts.extensions.clone();
        request
    }

    fn with_headers(&self, headers: HeaderMap) -> Request<Body> {
        let mut request = Request::new(self.whole.body());
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = self.parts.uri.clone();
        *request.version_mut() = self.parts.version;
        *request.headers_mut() = headers;
        request
    }
}

/// In the words of a server that answers too late itself.
fn late() -> Response<Body> {
    Status::cancelled(TimeoutExpired(()).to_string()).into_http()
}

fn unavailable(why: String) -> Response<Body> {
    Status::unavailable(why).into_http()
}
