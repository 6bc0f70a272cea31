//! Errors of gRPC as clients take them well.
//!
//! Clients repeat a call that ends with INTERNAL or OUT_OF_RANGE for minutes. The transport ends
//! calls so only where a request cannot be decoded or is too large, which repeating does not mend; so
//! these become INVALID_ARGUMENT and RESOURCE_EXHAUSTED, which are not repeated. A call that is not
//! served says so.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::Code;
use tonic::body::Body;
use tonic::codegen::Service as HttpService;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::server::NamedService;

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
const UNSERVED: HeaderValue =
    HeaderValue::from_static("this call is not served by pipeann; see docs/milvus-coverage.md");

/// A service whose errors are told so.
#[derive(Clone)]
pub(super) struct Told<S>(pub(super) S);

impl<S: NamedService> NamedService for Told<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> HttpService<Request<Body>> for Told<S>
where
    S: HttpService<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.call(request);
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
