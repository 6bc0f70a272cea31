//! A server that has no data yet: every call goes to the one that leads, as it came, and the answer comes
//! back as it is. Whoever answers knows the users; here only a token is looked at.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use pipeann_engine::memory::Accountant;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service as HttpService;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;

use super::calls::Service;
use super::connections::{Connections, Incoming};
use super::edge::Edge;
use super::guard::Guard;
use super::listen::{Listening, main_server, runtime};
use super::messages::Messages;
use super::peers::Peers;
use super::serve_options::{
    CALLS_OF_CONNECTION, MAX_HEALTH_BYTES, ServeError, ServeOptions, WINDOW_BYTES,
};
use super::sockets::main_listener;
use super::transport::{Bounded, CallNetwork, Guarded};
use crate::proto::milvus::milvus_service_server::MilvusServiceServer;

/// Begins to send all calls on to the server that leads, on threads of its own. Where
/// [`ServeOptions::socket`] is given, another server may listen there at the same time, and take over.
///
/// # Errors
/// [`ServeError`].
pub fn relay(peers: Arc<dyn Peers>, options: &ServeOptions) -> Result<Listening, ServeError> {
    let runtime = runtime(options.threads)?;
    let connections = Connections::new(options.limits.clone());
    let (listener, address) = main_listener(&runtime, options)?;
    let incoming = {
        let _inside = runtime.enter();
        Incoming::new(listener, &connections)
    };
    let server = main_server(&runtime, options)?;
    let guard = match &options.token {
        Some(token) if !options.authorization => Guard::token(token, Arc::default()),
        _ => Guard::Open,
    };
    let network = CallNetwork {
        connections: Some(connections),
        request: options.limits.request,
        log: options.access_log.clone(),
    };
    let messages = Messages::new(&Accountant::new(None));
    let (edge, request) = (Some(Edge::away(peers)), network.request);
    let all_messages = Arc::clone(&messages);
    let service = Guarded::new(NoData, guard, (network, messages), edge);
    Ok(Listening::begin(runtime, address, |mut stopped| async move {
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_serving::<MilvusServiceServer<Service>>().await;
        let health = health.max_decoding_message_size(MAX_HEALTH_BYTES);
        let health = Bounded::new(health, request, &all_messages);
        let mut server = server
            .max_concurrent_streams(CALLS_OF_CONNECTION)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let served = server.add_service(health).add_service(service).serve_with_incoming_shutdown(
            incoming,
            async {
                // Dropped or sent, it means the same.
                let _ = stopped.wait_for(|stopped| *stopped).await;
            },
        );
        if let Err(error) = served.await {
            tracing::error!("the server ended: {error}");
        }
    }))
}

/// Answers what nobody else does.
#[derive(Clone)]
struct NoData;

impl NamedService for NoData {
    const NAME: &'static str = <MilvusServiceServer<Service> as NamedService>::NAME;
}

impl HttpService<Request<Body>> for NoData {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<Body>) -> Self::Future {
        let why = "this server has no data yet, and no other one answers; try again";
        ready(Ok(Status::unavailable(why).into_http()))
    }
}
