//! Where each call is answered, when a server is one of several.

use super::calls::CALLS;

/// One call of the service.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedCall {
    pub(super) name: &'static str,
    pub(super) route: Route,
    /// What of it is not served: nothing where it is empty.
    pub(super) but: &'static str,
}

/// Where a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// By the server that is asked, from its own data, when that is new enough.
    Local(LocalRead),
    /// By the server that leads.
    Leader,
    /// By the server that is asked: it is about the process.
    Process,
}

/// What a call that is answered here reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalRead {
    /// Names and what belongs to them: as new as anything that was answered.
    Catalogue,
    /// How many rows there are: likewise.
    Counts,
    /// Rows: as new as the request asks for.
    Rows,
}

impl Route {
    /// As the page says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Local(_) => "local",
            Self::Leader => "forwarded",
            Self::Process => "process",
        }
    }
}

/// The call of a path, as `/milvus.proto.milvus.MilvusService/Search`; none where it is not served.
pub(super) fn called(path: &str) -> Option<&'static ServedCall> {
    let name = path.rsplit('/').next()?;
    CALLS.iter().find(|call| call.name == name)
}
