//! Calls of a program that has the database open itself: the same functions, without a network.
//!
//! Those calls that are made often are here, as messages that are never encoded. For all others,
//! and for clients that know nothing but gRPC, a socket in the file system serves the same door.

use std::path::Path;
use std::sync::Arc;

use pipeann_db::scheduler::SchedulerOptions;

use super::frontend::{Call, FrontendContext, FrontendSettings};
use super::listen::{Served, listen_at};
use super::serve_options::ServeError;
use super::{hybrid, query, search};
use crate::proto::milvus as wire;
use crate::status::CallFailure;

/// A call that was refused, or failed, as the wire has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    /// The code.
    pub code: i32,
    /// The code of earlier servers.
    pub legacy: i32,
    /// Why.
    pub reason: String,
}

impl From<CallFailure> for RefusedCall {
    fn from(failure: CallFailure) -> Self {
        let status = failure.into_status();
        Self { code: status.code, legacy: status.error_code, reason: status.reason }
    }
}

/// The service, called from within the process.
pub struct InProcess(Arc<FrontendContext>);

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InProcess").field(&self.0.settings).finish()
    }
}

impl InProcess {
    /// A service of this database, which stays open as long as the service or what listens for it.
    pub fn new(settings: FrontendSettings) -> Self {
        Self(Arc::new(FrontendContext::new(settings, SchedulerOptions::default())))
    }

    /// Serves gRPC on a socket at this path too.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn listen(&self, path: &Path) -> Result<Served, ServeError> {
        listen_at(Arc::clone(&self.0), path)
    }

    /// The nearest rows of vectors.
    ///
    /// # Errors
    /// [`RefusedCall`].
    pub fn search(&self, request: wire::SearchRequest) -> Result<wire::SearchResults, RefusedCall> {
        Ok(search::search(&self.call(), request)?)
    }

    /// Several searches, ranked as one.
    ///
    /// # Errors
    /// [`RefusedCall`].
    pub fn hybrid_search(
        &self,
        request: wire::HybridSearchRequest,
    ) -> Result<wire::SearchResults, RefusedCall> {
        Ok(hybrid::search(&self.call(), request)?)
    }

    /// Rows by filter, or how many those are.
    ///
    /// # Errors
    /// [`RefusedCall`].
    pub fn query(&self, request: wire::QueryRequest) -> Result<wire::QueryResults, RefusedCall> {
        Ok(query::query(&self.call(), request)?)
    }

    pub(super) fn call(&self) -> Call {
        Call::within(Arc::clone(&self.0))
    }
}
