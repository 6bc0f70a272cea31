//! HTTP to S3 by the libraries that gRPC has brought already, with TLS by rustls and ring.
//!
//! Time-outs are here, as a request that was cut off is one whose outcome is not known, and the caller
//! has to hear of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use tokio::time::{Instant, Sleep};

/// To connect.
const CONNECT: Duration = Duration::from_secs(5);
/// From the first byte of a request to the head of its answer.
const ANSWER: Duration = Duration::from_secs(30);
/// From one piece of an answer's body to the next.
const PIECE: Duration = Duration::from_secs(30);
/// That a connection is kept while nothing uses it. Shorter than servers keep theirs.
const IDLE: Duration = Duration::from_secs(15);

/// Makes clients for `object_store`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainConnector;

impl HttpConnector for PlainConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        // A machine without certificates of authorities can still speak to an endpoint without TLS.
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| object_store::Error::Generic { store: "S3", source: Box::new(e) })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Whether HTTP without TLS may be spoken was decided by the endpoint, before a request is made.
        let tls = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let connector = tls.enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Ok(HttpClient::new(PlainClient(client)))
    }
}

#[derive(Debug)]
struct PlainClient(Client<HttpsConnector<TcpConnector>, HttpRequestBody>);

#[async_trait]
impl HttpService for PlainClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = tokio::time::timeout(ANSWER, self.0.request(request)).await;
        let answer = answer.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
        let (head, body) = answer.map_err(failure)?.into_parts();
        let body = body.map_err(|e| HttpError::new(HttpErrorKind::Interrupted, e));
        Ok(HttpResponse::from_parts(
            head,
            HttpResponseBody::new(Timed { body, wait: Box::pin(tokio::time::sleep(PIECE)) }),
        ))
    }
}

fn failure(error: hyper_util::client::legacy::Error) -> HttpError {
    let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
    HttpError::new(kind, error)
}

/// A body whose pieces have to come in time.
struct Timed<B> {
    body: B,
    /// Ends when the next piece is late.
    wait: Pin<Box<Sleep>>,
}

impl<B> Body for Timed<B>
where
    B: Body<Data = Bytes, Error = HttpError> + Unpin,
{
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(piece) = Pin::new(&mut self.body).poll_frame(context) {
            self.wait.as_mut().reset(Instant::now() + PIECE);
            return Poll::Ready(piece);
        }
        match self.wait.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
                Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Timeout, late))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
