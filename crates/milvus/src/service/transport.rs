//! Errors of gRPC as clients take them well, and who is answered at all.
//!
//! Clients repeat a call that ends with INTERNAL or OUT_OF_RANGE for minutes. The transport ends
//! calls so only where a request cannot be decoded or is too large, which repeating does not mend; so
//! these become INVALID_ARGUMENT and RESOURCE_EXHAUSTED, which are not repeated. A call that is not
//! served says so.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use tonic::body::Body;
use tonic::codegen::Service as HttpService;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::server::NamedService;
use tonic::{Code, Status};

const AUTHORIZATION: &str = "authorization";
const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
const UNSERVED: HeaderValue =
    HeaderValue::from_static("this call is not served by pipeann; see docs/milvus-coverage.md");

/// A service whose errors are told so, and which answers only those who know its token.
#[derive(Clone)]
pub(super) struct Guarded<S> {
    service: S,
    token: Option<Arc<Token>>,
}

/// What clients have to send, as they send it.
struct Token(String);

impl Token {
    fn is(&self, sent: &[u8]) -> bool {
        let expected = self.0.as_bytes();
        // All bytes are looked at, so that the time tells nothing about them.
        let differ = expected.iter().zip(sent).fold(0, |differ, (a, b)| differ | (a ^ b));
        expected.len() == sent.len() && differ == 0
    }
}

impl<S> Guarded<S> {
    /// `token` is `user:password`, or a key; none where anybody may call.
    pub(super) fn new(service: S, token: Option<&str>) -> Self {
        let encoded = token.map(|token| Arc::new(Token(STANDARD.encode(token))));
        Self { service, token: encoded }
    }

    /// Why a request is not answered, if so.
    fn refusal(&self, request: &Request<Body>) -> Option<Status> {
        let token = self.token.as_ref()?;
        match request.headers().get(AUTHORIZATION) {
            None => Some(Status::unauthenticated("missing authorization in header")),
            Some(sent) if token.is(sent.as_bytes()) => None,
            Some(_) => Some(Status::unauthenticated(
                "auth check failure, please check username and password are correct",
            )),
        }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> HttpService<Request<Body>> for Guarded<S>
where
    S: HttpService<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if let Some(refusal) = self.refusal(&request) {
            return Box::pin(async move { Ok(refusal.into_http()) });
        }
        let answer = self.service.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            tell(&mut response);
            Ok(response)
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
