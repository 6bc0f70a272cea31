//! A leader of which a test decides what it answers, and when it is no more.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body::{Body as HttpBody, Frame};
use pipeann_milvus::LeaderAt;
use pipeann_milvus::proto::milvus as wire;
use prost::Message as _;
use prost::bytes::Bytes;
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Status};

use super::peers::{Server, at, own_address};
use super::raw::{Ended, ask, call};

/// What a leader answers.
#[derive(Clone)]
enum Says {
    /// These bytes with these headers, and trailers at the end.
    This(Vec<u8>, &'static [(&'static str, &'static str)], &'static [(&'static str, &'static str)]),
    /// Nothing ever.
    Nothing,
    /// The beginning of an answer, and then nothing.
    Half,
}

/// Headers of the calls that came.
type Came = Arc<Mutex<Vec<HeaderMap>>>;

#[derive(Clone)]
struct Service(Says, Came);

impl tonic::server::NamedService for Service {
    const NAME: &'static str = "milvus.proto.milvus.MilvusService";
}

/// An answer in pieces; without trailers it never ends.
struct Pieces(Option<Bytes>, Option<HeaderMap>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(data) = self.0.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match self.1.take() {
            Some(trailers) if !trailers.is_empty() => {
                self.1 = Some(HeaderMap::new());
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            Some(_) => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

fn framed(message: &[u8]) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    bytes.extend(message);
    bytes.into()
}

impl tonic::codegen::Service<Request<Body>> for Service {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.1.lock().unwrap().push(request.headers().clone());
        let says = self.0.clone();
        Box::pin(async move {
            let (pieces, told) = match says {
                Says::This(message, told, trailers) => {
                    (Pieces(Some(framed(&message)), Some(headers(trailers))), told)
                }
                Says::Half => {
                    (Pieces(Some(Bytes::from_static(b"\0\0\0\x01\0half")), None), &[][..])
                }
                Says::Nothing => std::future::pending().await,
            };
            let mut response = Response::new(Body::new(pieces));
            *response.headers_mut() = headers(told);
            response.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
            Ok(response)
        })
    }
}

/// A leader that says something, on a runtime of its own, and a server that sends calls on to it.
fn led_by(says: Says) -> (Runtime, Came, Server) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let came = Came::default();
    let listener = runtime.block_on(tokio::net::TcpListener::bind((own_address(), 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = tonic::transport::Server::builder()
        .add_service(Service(says, Arc::clone(&came)))
        .serve_with_incoming(TcpListenerStream::new(listener));
    runtime.spawn(serve);
    (runtime, came, Server::new(2, LeaderAt::There(at(address))))
}

/// Returns when a call has come.
async fn arrival(came: &Came) {
    while came.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn flush(edge: &Server, metadata: &[(&'static str, &str)], timeout: Option<Duration>) -> Ended {
    call(&edge.served, "FlushAll", &wire::FlushAllRequest::default(), metadata, timeout)
}

#[test]
fn what_comes_back_is_what_was_said() {
    let message: Vec<u8> = (0..20_000_000u32).map(|n| (n % 251) as u8).collect();
    let says = Says::This(
        message.clone(),
        &[("x-first", "1"), ("x-bin", "AAEC")],
        &[("grpc-status", "0"), ("x-last", "2")],
    );
    let (_leader, came, edge) = led_by(says);
    let ended =
        flush(&edge, &[("x-mine", "a"), ("authorization", "bWU6aXQ="), ("dbname", "d")], None);
    assert_eq!((ended.code, ended.message == message), (Code::Ok, true));
    for told in [("x-first", "1"), ("x-bin", "AAEC"), ("x-last", "2")] {
        let told = (told.0.to_owned(), told.1.to_owned());
        assert!(ended.metadata.contains(&told), "{told:?} of {:?}", ended.metadata);
    }
    let came = came.lock().unwrap();
    let sent = |name: &str| came[0].get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(sent("x-mine").as_deref(), Some("a"));
    assert_eq!(sent("authorization").as_deref(), Some("bWU6aXQ="));
    assert_eq!(sent("dbname").as_deref(), Some("d"));
    assert_eq!(sent("pipeann-forwarded-by").as_deref(), Some("2"));
    assert_eq!(sent("grpc-timeout"), None);
}

#[test]
fn errors_come_back_as_they_are() {
    let says = Says::This(
        Vec::new(),
        &[],
        &[("grpc-status", "8"), ("grpc-message", "too much: 90%25 of it"), ("x-why", "full")],
    );
    let (_leader, came, edge) = led_by(says);
    let ended = flush(&edge, &[], None);
    assert_eq!((ended.code, ended.text.as_str()), (Code::ResourceExhausted, "too much: 90% of it"));
    assert!(ended.metadata.contains(&("x-why".to_owned(), "full".to_owned())));
    assert_eq!(came.lock().unwrap().len(), 1, "it is not sent twice");
}

#[test]
fn the_time_that_is_left_goes_along() {
    let says = Says::This(Vec::new(), &[], &[("grpc-status", "0")]);
    let (_leader, came, edge) = led_by(says);
    // Nobody leads for a while, and then that one does.
    let there = pipeann_milvus::Peers::leader(&*edge.others);
    edge.others.lead(LeaderAt::Unknown("not yet".to_owned()));
    edge.learns(3_000, there);
    flush(&edge, &[], Some(Duration::from_secs(20)));
    let came = came.lock().unwrap();
    let left = came[0].get("grpc-timeout").unwrap().to_str().unwrap().strip_suffix('m').unwrap();
    let left: u64 = left.parse().unwrap();
    assert!((10_000..=19_000).contains(&left), "{left} ms");
}

#[test]
fn a_leader_that_is_lost_under_a_call_ends_it_and_it_is_not_made_twice() {
    let (leader, came, edge) = led_by(Says::Nothing);
    // Another one stands ready.
    let next = Server::new(1, LeaderAt::Here);
    let (others, at) = (Arc::clone(&edge.others), next.at());
    let seen = Arc::clone(&came);
    edge.served.runtime.spawn(async move {
        arrival(&seen).await;
        others.lead(LeaderAt::There(at));
        leader.shutdown_background();
    });
    let began = Instant::now();
    let ended = flush(&edge, &[], None);
    assert_eq!(ended.code, Code::Unavailable, "{}", ended.text);
    assert!(ended.text.contains("may have done what was asked"), "{}", ended.text);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!((came.lock().unwrap().len(), next.answered.take().len()), (1, 0));
    assert_eq!(flush(&edge, &[], None).code, Code::Ok, "the next call goes to the next one");
}

/// An answer to an insert, of another number of rows than was asked for.
fn inserted(rows: i64) -> Says {
    let answer = wire::MutationResult { insert_cnt: rows, ..Default::default() };
    Says::This(answer.encode_to_vec(), &[], &[("grpc-status", "0")])
}

/// An insert whose first leader says this, and is lost behind it; another one answers.
fn insert_of_two_leaders(says: Says) -> (Ended, HeaderMap, HeaderMap) {
    let (first, came, edge) = led_by(says);
    let (_second, came_again, other) = led_by(inserted(7));
    let there = pipeann_milvus::Peers::leader(&*other.others);
    let (others, seen) = (Arc::clone(&edge.others), Arc::clone(&came));
    edge.served.runtime.spawn(async move {
        arrival(&seen).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        others.lead(there);
        first.shutdown_background();
    });
    let ended = call(&edge.served, "Insert", &crate::served::insert("a", 0..3), &[], None);
    let headers = |came: &Came| came.lock().unwrap()[0].clone();
    (ended, headers(&came), headers(&came_again))
}

#[test]
fn a_change_whose_leader_is_lost_is_sent_to_the_next_one_by_the_same_id() {
    let unsettled =
        Says::This(Vec::new(), &[("pipeann-unsettled", "true")], &[("grpc-status", "0")]);
    for says in [Says::Nothing, Says::Half, unsettled] {
        let (ended, first, second) = insert_of_two_leaders(says);
        assert_eq!(ended.code, Code::Ok, "{}", ended.text);
        let answer = wire::MutationResult::decode(&ended.message[..]).unwrap();
        assert_eq!(answer.insert_cnt, 7);
        let id = |headers: &HeaderMap| headers.get("pipeann-request-id").unwrap().clone();
        assert_eq!(id(&first), id(&second));
    }
}

#[test]
fn a_change_is_sent_again_no_longer_than_its_client_waits() {
    let (leader, came, edge) = led_by(Says::Nothing);
    edge.served.runtime.spawn(async move {
        arrival(&came).await;
        leader.shutdown_background();
    });
    let request = crate::served::insert("a", 0..3);
    let ended = call(&edge.served, "Insert", &request, &[], Some(Duration::from_secs(12)));
    assert_eq!(ended.code, Code::Unavailable, "{}", ended.text);
    assert!(ended.text.contains("may have done what was asked"), "{}", ended.text);
}

#[test]
fn a_leader_that_is_lost_in_the_middle_of_an_answer_ends_the_call() {
    let (leader, came, edge) = led_by(Says::Half);
    edge.served.runtime.spawn(async move {
        arrival(&came).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        leader.shutdown_background();
    });
    let ended = flush(&edge, &[], None);
    assert_eq!(ended.code, Code::Unavailable, "{}", ended.text);
}

#[test]
fn a_leader_that_says_nothing_is_waited_for_as_long_as_the_client_waits() {
    let (_leader, _came, edge) = led_by(Says::Nothing);
    let began = Instant::now();
    let ended = flush(&edge, &[], Some(Duration::from_millis(700)));
    assert!(matches!(ended.code, Code::DeadlineExceeded | Code::Cancelled), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_leader_has_as_many_calls_of_one_server_as_it_takes_of_one_connection() {
    let (leader, came, edge) = led_by(Says::Nothing);
    edge.served.runtime.block_on(async {
        let mut calls = Vec::new();
        for _ in 0..2 {
            let channel = edge.served.endpoint().connect().await.unwrap();
            for _ in 0..100 {
                let mut request = tonic::Request::new(Vec::new());
                request.set_timeout(Duration::from_secs(60));
                calls.push(tokio::spawn(ask(channel.clone(), "FlushAll", request)));
            }
        }
        while came.lock().unwrap().len() < 128 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(came.lock().unwrap().len(), 128);
        leader.shutdown_background();
        for call in calls {
            assert_ne!(call.await.unwrap().code, Code::Ok);
        }
    });
}
