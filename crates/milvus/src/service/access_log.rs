//! Who called what, from where, and how it ended.

use std::net::SocketAddr;
use std::time::Duration;

use tonic::codegen::http::Response;

/// A call that was answered, refused ones among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEnded<'a> {
    /// The call, as `Search`.
    pub call: &'a str,
    /// Who made it; none where nobody is asked, or where it was not proved who it is.
    pub user: Option<&'a str>,
    /// Where it came from.
    pub from: Option<SocketAddr>,
    /// The database that was named beside the request, or the default one.
    pub database: &'a str,
    /// The code of Milvus, 0 for success; none where the call ended before it was looked at, or another
    /// server answered it.
    pub code: Option<i32>,
    /// The status of gRPC, 0 where the call was answered.
    pub grpc_status: i32,
    /// From the request's first bytes until its answer was ready.
    pub took: Duration,
}

/// Told of each call when its answer is ready.
pub trait AccessLog: Send + Sync {
    /// A call has ended. Called by the threads of the network, so it must not wait for long.
    fn ended(&self, call: &CallEnded<'_>);
}

/// Left in an answer: the code of Milvus.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerCode(pub(super) i32);

impl AnswerCode {
    /// That of an answer of this server; 0 where nothing was noted.
    pub(super) fn of<B>(answer: &Response<B>) -> i32 {
        answer.extensions().get::<Self>().map_or(0, |Self(code)| *code)
    }
}
