//! What a server shows others, so that they believe what it says beside a call.
//!
//! A call that is sent on bears marks, by which whoever takes it knows that it came before, under which
//! id, and how new its data is to be. From a client they would be a lie, so they count where the key is shown
//! that the server which is called has told etcd. A server of a version without keys shows none: while one
//! of these is there, marks are believed without, as they were before.

use std::sync::Arc;

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request};

use super::edge::{Edge, Outgoing};
use super::marks::{FORWARDED, KEY, READ_AFTER, does_not_lead};
use super::peers::{PeerKey, Peers, ServerAt};

/// Shows a server its key, where it is known.
pub(super) fn show(headers: &mut HeaderMap, key: Option<&PeerKey>) {
    if let Some(mut key) = key.and_then(|key| HeaderValue::try_from(key.text()).ok()) {
        key.set_sensitive(true);
        headers.insert(KEY, key);
    }
}

/// Whether what a request says as a server's is believed.
pub(super) fn is_believed(headers: &HeaderMap, peers: &dyn Peers) -> bool {
    let shown = headers.get(KEY).map(HeaderValue::as_bytes);
    let is_own = |key: PeerKey| shown.is_some_and(|shown| key.is(shown));
    peers.key().is_some_and(is_own) || !peers.are_all_keyed()
}

/// Takes off a request what only servers say, where none said it. One that claims to have been sent on and does
/// not show it is refused: it may be of a server that does not know of this one yet, and then it comes
/// again.
///
/// # Errors
/// That refusal.
pub(super) fn check(headers: &mut HeaderMap, peers: Option<&Arc<dyn Peers>>) -> Result<(), Status> {
    let marked = headers.contains_key(FORWARDED);
    let believed = marked && peers.is_some_and(|peers| is_believed(headers, &**peers));
    headers.remove(KEY);
    match peers {
        Some(_) if marked && !believed => return Err(does_not_lead()),
        Some(_) if marked => {}
        Some(_) | None => {
            headers.remove(FORWARDED);
            headers.remove(READ_AFTER);
        }
    }
    Ok(())
}

impl Edge {
    /// A call as it is sent to another server.
    pub(super) fn marked(&self, server: &ServerAt, call: &Outgoing) -> Request<Body> {
        let mut request = call.marked(self.peers.number());
        show(request.headers_mut(), self.peers.key_of(server).as_ref());
        request
    }
}
