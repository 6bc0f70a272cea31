//! Who is answered at all: anybody, those who know a token, or users of the database.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use pipeann_db::access::{Proof, ProofSource};
use pipeann_db::database::Database;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};

use super::asking::timeout_in;
use super::attempts::{Attempt, Attempts, TriedBy};
use super::caller::{CallerName, named_database_of};
use super::freshness::users_of;
use super::network_limits::network_of;
use super::peers::{Peers, ReadTime};
use super::rights;
use super::users::FIRST_PASSWORD;

const AUTHORIZATION: &str = "authorization";

/// Whom the service answers.
#[derive(Clone)]
pub(super) enum Guard {
    /// Anybody.
    Open,
    /// Those who send these bytes: a token, encoded.
    Token(Arc<[u8]>, Arc<Attempts>),
    /// Users of the database, each as far as they may.
    Users(Arc<Database>, Arc<Attempts>),
}

impl Guard {
    /// Answers those who know the token: `user:password`, or a key.
    pub(super) fn token(token: &str, attempts: Arc<Attempts>) -> Self {
        Self::Token(STANDARD.encode(token).into_bytes().into(), attempts)
    }

    /// Lets a request pass, as the user who made it, or says why not. Proving a password takes long.
    pub(super) async fn admit(
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
        let from = remote(request).map(|address| network_of(address.ip()));
        match self {
            Self::Open => Ok(()),
            Self::Token(expected, attempts) => {
                let is_right = same(&expected, sent.as_bytes());
                check_token(is_right, sent.as_bytes(), from, &attempts)
            }
            Self::Users(database, attempts) => {
                let decoded = STANDARD.decode(sent.as_bytes()).ok();
                let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
                let (user, password) = decoded
                    .as_deref()
                    .and_then(|token| token.split_once(':'))
                    .map(|(user, password)| (user.to_owned(), password.to_owned()))
                    .ok_or_else(wrong)?;
                let timeout = timeout_in(request.headers());
                // Who was right before waits for nobody, as long as the others wait for this server before
                // they answer that his password is another one.
                users_of(peers, ReadTime::Any, timeout).await;
                if !database.access().knows(&user, &password) {
                    let tried = Tried { user: &user, password, from, timeout };
                    tried.prove(&database, &attempts, peers).await?;
                }
                // What nothing lets him do is not read.
                let call = request.uri().path().rsplit('/').next().unwrap_or_default();
                let named = named_database_of(request.headers());
                let check = || rights::check_anywhere(database.access(), &user, call, named);
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

/// A password that was not proved before.
struct Tried<'a> {
    user: &'a str,
    password: String,
    from: Option<IpAddr>,
    timeout: Option<Duration>,
}

impl Tried<'_> {
    async fn prove(
        self,
        database: &Arc<Database>,
        attempts: &Attempts,
        peers: Option<&Arc<dyn Peers>>,
    ) -> Result<(), Status> {
        let Self { user, password, from, timeout } = self;
        let attempt = || {
            let is_user = database.access().has_user(user);
            from.map(|from| Attempt::new(user, is_user, TriedBy::Network(from)))
        };
        let now = Instant::now();
        let before = attempt();
        if let Some(wait) = before.as_ref().and_then(|attempt| attempts.wait(attempt, now)) {
            return Err(later("passwords of this user", wait));
        }
        if let Some(attempt) = before.filter(|attempt| attempts.is_flooded(attempt, now)) {
            // A user who has just come to be elsewhere is refused too, until that is known here.
            tokio::time::sleep(attempts.pretence()).await;
            attempts.failed(&attempt, Instant::now());
            return Err(wrong());
        }
        users_of(peers, ReadTime::Latest, timeout).await;
        let (access, named) = (Arc::clone(database), user.to_owned());
        let source = from.map(source_of).unwrap_or_default();
        let began = Instant::now();
        let proof = tokio::task::spawn_blocking(move || {
            access.access().authenticates_at(source, &named, &password, FIRST_PASSWORD)
        });
        let proof = proof.await.unwrap_or(Proof::Wrong);
        match proof {
            Proof::Right => attempt().iter().for_each(|attempt| attempts.right(attempt)),
            Proof::Wrong => {
                attempts.proved_in(began.elapsed());
                let now = Instant::now();
                attempt().iter().for_each(|attempt| attempts.failed(attempt, now));
                return Err(wrong());
            }
            Proof::Busy => {
                return Err(Status::resource_exhausted(
                    "too many passwords wait to be checked; try again",
                ));
            }
        }
        Ok(())
    }
}

/// Lets those pass who have the token; after too many wrong ones nobody from there who has not had it
/// before.
fn check_token(
    is_right: bool,
    sent: &[u8],
    from: Option<IpAddr>,
    attempts: &Attempts,
) -> Result<(), Status> {
    let Some(from) = from else { return if is_right { Ok(()) } else { Err(wrong()) } };
    if is_right && attempts.is_trusted(from) {
        return Ok(());
    }
    let (attempt, now) = (Attempt::on_token(from), Instant::now());
    if let Some(wait) = attempts.wait(&attempt, now) {
        return Err(later("tokens", wait));
    }
    if is_right {
        attempts.trust(from, now);
        return Ok(());
    }
    attempts.failed_with(&attempt, sent, now);
    Err(wrong())
}

fn wrong() -> Status {
    Status::unauthenticated("auth check failure, please check username and password are correct")
}

/// Refuses a password after too many wrong ones. Clients do not repeat it by themselves.
fn later(what: &str, wait: Duration) -> Status {
    Status::unauthenticated(format!(
        "auth check failure, too many wrong {what} from this address; try again in {} s",
        wait.as_secs() + 1
    ))
}

/// Who takes turns with others before proofs.
fn source_of(network: IpAddr) -> ProofSource {
    ProofSource(match network {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    })
}

/// The address that a request came from.
pub(super) fn remote(request: &Request<Body>) -> Option<SocketAddr> {
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
