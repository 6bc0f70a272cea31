//! The calls of etcd: one at a time to one of its servers, each with a deadline.
//!
//! A server of etcd that does not answer loses its turn, and its connection, to the next. Nothing is
//! sent twice but what was refused for an old token: what was not answered may have been done, and
//! only the caller knows how to find out.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::Error;
use crate::counts::Tallies;

/// The messages and services, compiled from `proto/etcd.proto`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "compiled from the definition; what is needed differs between versions"
)]
pub(super) mod proto {
    tonic::include_proto!("etcdserverpb");
}

use proto::auth_client::AuthClient;
use proto::kv_client::KvClient;
use proto::lease_client::LeaseClient;
use proto::maintenance_client::MaintenanceClient;
use proto::watch_client::WatchClient;
use proto::*;

/// The longest answer: a page of a list, or the changes that a watch tells at once.
const ANSWER_MAX: usize = 16 << 20;

type AuthToken = Option<MetadataValue<Ascii>>;

pub(super) struct EndpointCalls {
    endpoints: Vec<(String, Endpoint)>,
    user: Option<(String, String)>,
    place: Mutex<CallPlace>,
    /// Grows with each change of the server or the connection.
    turns: watch::Sender<u64>,
    pub(super) timeout: Duration,
    pub(super) tallies: Arc<Tallies>,
}

/// Where calls go at present.
struct CallPlace {
    at: usize,
    channel: Channel,
    token: AuthToken,
    turn: u64,
}

impl EndpointCalls {
    /// To be called inside the runtime. `endpoints` are not empty.
    pub(super) fn new(
        endpoints: Vec<(String, Endpoint)>,
        user: Option<(String, String)>,
        timeout: Duration,
        tallies: Arc<Tallies>,
    ) -> Self {
        let channel = endpoints[0].1.connect_lazy();
        let place = Mutex::new(CallPlace { at: 0, channel, token: None, turn: 0 });
        Self { endpoints, user, place, turns: watch::Sender::new(0), timeout, tallies }
    }

    fn place(&self) -> MutexGuard<'_, CallPlace> {
        self.place.lock().expect("nothing panics under this lock")
    }

    pub(super) fn url(&self) -> String {
        self.endpoints[self.place().at].0.clone()
    }

    pub(super) fn urls(&self) -> String {
        let urls: Vec<&str> = self.endpoints.iter().map(|(url, _)| url.as_str()).collect();
        urls.join(", ")
    }

    pub(super) fn turns(&self) -> watch::Receiver<u64> {
        self.turns.subscribe()
    }

    /// Goes on to the next server by a new connection, unless somebody did so since `turn`.
    fn go_on(&self, turn: u64) {
        let mut place = self.place();
        if place.turn != turn {
            return;
        }
        place.at = (place.at + 1) % self.endpoints.len();
        place.channel = self.endpoints[place.at].1.connect_lazy();
        place.turn += 1;
        self.turns.send_replace(place.turn);
    }

    /// One call. What `f` is handed has the connection and the token.
    async fn call<T, F, R>(&self, within: Duration, f: F) -> Result<T, Error>
    where
        F: Fn(Channel, AuthToken) -> R,
        R: Future<Output = Result<Response<T>, Status>>,
    {
        let mut may_ask_for_token = self.user.is_some();
        loop {
            let (channel, token, turn) = {
                let place = self.place();
                (place.channel.clone(), place.token.clone(), place.turn)
            };
            let has_token = token.is_some();
            let answer = if may_ask_for_token && !has_token {
                Err(Status::unauthenticated("no token yet"))
            } else {
                match tokio::time::timeout(within, f(channel.clone(), token)).await {
                    Ok(answer) => answer.map(Response::into_inner),
                    Err(_) => {
                        self.go_on(turn);
                        return Err(Error::Late(within));
                    }
                }
            };
            let refused = match answer {
                Ok(answer) => return Ok(answer),
                Err(refused) => refused,
            };
            if may_ask_for_token && is_old_token(&refused) {
                may_ask_for_token = false;
                self.authenticate(channel, turn, within).await?;
                continue;
            }
            if is_unreachable(&refused) {
                self.go_on(turn);
            }
            return Err(self.error(&refused));
        }
    }

    async fn authenticate(
        &self,
        channel: Channel,
        turn: u64,
        within: Duration,
    ) -> Result<(), Error> {
        let Some((name, password)) = self.user.clone() else { return Ok(()) };
        let ask = AuthenticateRequest { name, password };
        let mut client = AuthClient::new(channel);
        let answer = tokio::time::timeout(within, client.authenticate(ask)).await;
        let answer = answer.map_err(|_| {
            self.go_on(turn);
            Error::Late(within)
        })?;
        let token = answer.map_err(|refused| {
            if is_unreachable(&refused) {
                self.go_on(turn);
                self.error(&refused)
            } else {
                Error::Credentials(short(refused.message()))
            }
        })?;
        let token = token.into_inner().token.parse();
        let token = token.map_err(|_| Error::Credentials("the token is no token".into()))?;
        self.place().token = Some(token);
        Ok(())
    }

    fn error(&self, refused: &Status) -> Error {
        let why = short(&format!("{}: {}", refused.code(), refused.message()));
        match refused.code() {
            Code::Unauthenticated | Code::PermissionDenied => Error::Credentials(why),
            Code::InvalidArgument if is_old_token(refused) => Error::Credentials(why),
            _ if is_unreachable(refused) => Error::Unreachable { urls: self.urls(), why },
            _ => Error::Refused(why),
        }
    }

    pub(super) async fn status(&self) -> Result<StatusResponse, Error> {
        self.call(self.timeout, |channel, token| async move {
            MaintenanceClient::new(channel).status(with(StatusRequest {}, token)).await
        })
        .await
    }

    pub(super) async fn range(&self, ask: RangeRequest) -> Result<RangeResponse, Error> {
        self.tallies.reads.add();
        self.call(self.timeout, |channel, token| {
            let ask = with(ask.clone(), token);
            async move {
                KvClient::new(channel).max_decoding_message_size(ANSWER_MAX).range(ask).await
            }
        })
        .await
    }

    pub(super) async fn transact(&self, ask: TxnRequest) -> Result<TxnResponse, Error> {
        self.tallies.writes.add();
        self.call(self.timeout, |channel, token| {
            let ask = with(ask.clone(), token);
            async move { KvClient::new(channel).txn(ask).await }
        })
        .await
    }

    pub(super) async fn grant(&self, ttl: Duration) -> Result<LeaseGrantResponse, Error> {
        self.tallies.writes.add();
        let ttl = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
        self.call(self.timeout, |channel, token| async move {
            LeaseClient::new(channel).lease_grant(with(LeaseGrantRequest { ttl }, token)).await
        })
        .await
    }

    pub(super) async fn revoke(&self, id: i64) -> Result<(), Error> {
        self.tallies.writes.add();
        let revoked = self.call(self.timeout, |channel, token| async move {
            LeaseClient::new(channel).lease_revoke(with(LeaseRevokeRequest { id }, token)).await
        });
        match revoked.await {
            Err(Error::Refused(why)) if why.contains("lease not found") => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Renews a lease; its length from now on, and nothing where it is gone.
    pub(super) async fn renew(&self, id: i64, within: Duration) -> Result<Option<Duration>, Error> {
        self.tallies.renewals.add();
        let answer = self.call(within, |channel, token| async move {
            let ask = tokio_stream::once(LeaseKeepAliveRequest { id });
            let answers = LeaseClient::new(channel).lease_keep_alive(with(ask, token)).await?;
            let answer = answers.into_inner().message().await?;
            answer.map(Response::new).ok_or_else(|| Status::unavailable("no answer to a renewal"))
        });
        let ttl = u64::try_from(answer.await?.ttl).unwrap_or(0);
        Ok((ttl > 0).then(|| Duration::from_secs(ttl)))
    }

    /// Begins a watch. It ends where its server has no leader any more.
    pub(super) async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<Streaming<WatchResponse>, Error> {
        use tokio_stream::StreamExt;
        self.call(self.timeout, |channel, token| {
            let union = watch_request::RequestUnion::CreateRequest(create.clone());
            let first = tokio_stream::once(WatchRequest { request_union: Some(union) });
            let mut ask = with(first.chain(tokio_stream::pending()), token);
            ask.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
            async move {
                WatchClient::new(channel).max_decoding_message_size(ANSWER_MAX).watch(ask).await
            }
        })
        .await
    }
}

fn with<T>(message: T, token: AuthToken) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}

fn is_unreachable(refused: &Status) -> bool {
    use Code::{Aborted, Cancelled, DeadlineExceeded, Unavailable, Unknown};
    let lost = refused.code() == Code::Internal && std::error::Error::source(refused).is_some();
    lost || matches!(refused.code(), Unavailable | DeadlineExceeded | Unknown | Aborted | Cancelled)
}

fn is_old_token(refused: &Status) -> bool {
    let said = refused.message();
    refused.code() == Code::Unauthenticated
        || said.contains("invalid auth token")
        || said.contains("user name is empty")
        || said.contains("revision of auth store is old")
}

/// What others say may be long.
pub(super) fn short(said: &str) -> String {
    said.chars().take(300).collect()
}
