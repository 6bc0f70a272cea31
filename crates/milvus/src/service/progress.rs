//! What servers ask each other: how far one has come, and how far the log goes.
//!
//! Anybody may ask, as for health: the answer has two numbers and no name, and costs nothing. Only for
//! other servers a server looks whether there is something to be applied, since each look is paid for.
//! One that leads for certain says how far the log goes, so that others know that what they have is all there is
//! also while nothing is written and the store says nothing. The others say what they have applied, so that what
//! was taken away is answered when it is gone everywhere.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tonic::body::Body;
use tonic::codegen::Service as HttpService;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};
use tonic::server::NamedService;
use tonic::{Code, Status};

use super::edge::Edge;
use super::peers::{LeaderAt, PeerKey, Peers, SharedLogEnd};
use super::shown::{is_believed, show};

/// The one call.
pub(super) const PATH: &str = "/pipeann.Servers/Progress";
/// The timestamp that whoever asks waits for.
const WANTED: &str = "pipeann-wanted";
/// The timestamp that is applied.
const APPLIED: &str = "pipeann-applied";
/// How far the log goes: term and number.
const LOG_END: &str = "pipeann-log-end";
/// How often the leader is asked how far the log goes.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(1);
/// How long another server may take to say how far it is.
const ANSWER: Duration = Duration::from_millis(500);
/// How often others are asked whether a change has come to them: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Tells how far this server has come.
#[derive(Clone, Debug)]
pub(super) struct ProgressDoor(pub(super) Arc<dyn Peers>);

impl NamedService for ProgressDoor {
    const NAME: &'static str = "pipeann.Servers";
}

impl HttpService<Request<Body>> for ProgressDoor {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let applied = self.0.timestamp();
        let wanted = number(request.headers(), WANTED);
        if wanted.is_some_and(|wanted| wanted > applied) && is_believed(request.headers(), &*self.0)
        {
            self.0.look();
        }
        let mut response = Status::ok("").into_http();
        let headers = response.headers_mut();
        headers.insert(APPLIED, HeaderValue::from(applied));
        if let Some(SharedLogEnd { term, number }) = self.0.leads_up_to() {
            let end =
                HeaderValue::try_from(format!("{term}:{number}")).expect("digits and a colon");
            headers.insert(LOG_END, end);
        }
        ready(Ok(response))
    }
}

/// Whether an answer says that so much is applied. A server that does not know the question is of another
/// version, or has no data yet and answers no read.
fn has_applied(answer: &HeaderMap, wanted: u64) -> bool {
    let is_unknown = || {
        let status = answer.get("grpc-status").map(|it| Code::from_bytes(it.as_bytes()));
        status == Some(Code::Unimplemented)
    };
    number(answer, APPLIED).map_or_else(is_unknown, |applied| applied >= wanted)
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// The question, with the timestamp that is waited for, for a server that wants to be shown this key.
pub(super) fn question(wanted: u64, key: Option<&PeerKey>) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = tonic::codegen::http::Method::POST;
    *request.uri_mut() = tonic::codegen::http::Uri::from_static(PATH);
    *request.version_mut() = tonic::codegen::http::Version::HTTP_2;
    let headers = request.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("te", HeaderValue::from_static("trailers"));
    headers.insert(WANTED, HeaderValue::from(wanted));
    show(headers, key);
    request
}

impl Edge {
    /// Returns when every other server that is there has applied what this one has, or at this moment.
    pub(super) async fn everywhere(&self, until: Instant) {
        let wanted = self.peers.timestamp();
        let mut pause = FIRST_PAUSE;
        let mut waits = self.peers.others();
        loop {
            let mut behind = Vec::new();
            for server in waits {
                let key = self.peers.key_of(&server);
                let asked = self.ask(&server, question(wanted, key.as_ref()));
                let patience = ANSWER.min(until.saturating_duration_since(Instant::now()));
                let has = match tokio::time::timeout(patience, asked).await {
                    Ok(Ok(answer)) => has_applied(answer.headers(), wanted),
                    Ok(Err(_)) | Err(_) => false,
                };
                if !has {
                    behind.push(server);
                }
            }
            // Whose lease has ended is waited for no more.
            let there = self.peers.others();
            behind.retain(|server| there.contains(server));
            if behind.is_empty() {
                return;
            }
            if Instant::now() + pause >= until {
                let behind: Vec<_> = behind.iter().map(|server| &server.uri).collect();
                tracing::warn!(
                    ?behind,
                    "servers that have not applied a change are waited for no more"
                );
                return;
            }
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
            waits = behind;
        }
    }
}

/// Asks the leader how far the log goes, as long as the door is there.
pub(super) async fn listen_to_leader(edge: Weak<Edge>) {
    loop {
        tokio::time::sleep(BETWEEN_QUESTIONS).await;
        let Some(edge) = edge.upgrade() else { return };
        let LeaderAt::There(server) = edge.peers.leader() else { continue };
        let asked = edge.peers.moment();
        let answer = tokio::time::timeout(ANSWER, edge.ask(&server, question(0, None))).await;
        let Ok(Ok(answer)) = answer else { continue };
        let end = answer.headers().get(LOG_END).and_then(|end| end.to_str().ok()?.split_once(':'));
        if let Some((term, number)) = end
            && let (Ok(term), Ok(number)) = (term.parse(), number.parse())
        {
            edge.peers.heard(SharedLogEnd { term, number }, asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_does_not_know_the_question_is_not_waited_for() {
        let answer = |name: &'static str, value: &str| {
            HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
        };
        for (applied, has) in [("6", false), ("7", true), ("8", true)] {
            assert_eq!(has_applied(&answer(APPLIED, applied), 7), has, "{applied}");
        }
        let refused = |status: Status| status.into_http::<()>().into_parts().0.headers;
        assert!(has_applied(&refused(Status::unimplemented("")), 7));
        let later = [Status::unavailable("later"), Status::resource_exhausted("later")];
        for status in later {
            assert!(!has_applied(&refused(status), 7));
        }
        assert!(!has_applied(&HeaderMap::new(), 7));
    }
}
