//! Requests that may come more than once and are applied once: their ids.
//!
//! A server that sends a change on to the leader gives it an id that no other one has, and may then send
//! it again until it is answered. A client that gives its calls ids of its own, and keeps them when it
//! repeats a call, has its repetitions known whichever server they come to: the id is made of the
//! client's, of who calls, and of all that is asked, so that one that is used for something else is
//! another. What stands in no request is never guessed: an insert that comes twice without an id is
//! two inserts.

use blake2::digest::consts::U16;
use blake2::{Blake2b, Digest as _};
use pipeann_db::replication::requests::RequestId;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request};
use uuid::Uuid;

use super::caller::{CallerName, named_database_of};
use super::marks::FORWARDED;
use super::routes::ServedCall;
use super::whole::{Arrived, WholeRequest};

/// The id of a call that is sent on, or that its client has named.
const REQUEST: &str = "pipeann-request-id";
/// By which clients name their calls, if they do.
const CLIENT_REQUEST: &str = "client-request-id";

/// The id of a request, where it has one.
pub(super) fn id_in(headers: &HeaderMap) -> Option<RequestId> {
    let text = headers.get(REQUEST)?.to_str().ok()?;
    Some(RequestId(Uuid::try_parse(text).ok()?.into_bytes()))
}

/// Gives a request an id that no other one has, where it has none.
pub(super) fn name(headers: &mut HeaderMap) {
    if id_in(headers).is_none() {
        set(headers, Uuid::new_v4());
    }
}

fn set(headers: &mut HeaderMap, id: Uuid) {
    let id = HeaderValue::try_from(id.to_string()).expect("digits and lines");
    headers.insert(REQUEST, id);
}

/// Gives a request that came from a client the id that its client means, if it named one and the call is a
/// change. Other servers have done that.
///
/// # Errors
/// What became of the client or of the memory for its request.
pub(super) async fn named_by_client(
    mut request: Request<Body>,
    call: Option<&ServedCall>,
) -> Result<Request<Body>, Status> {
    if request.headers().contains_key(FORWARDED) {
        return Ok(request);
    }
    request.headers_mut().remove(REQUEST);
    let named = request.headers().get(CLIENT_REQUEST).filter(|id| !id.is_empty()).cloned();
    let (Some(named), true) = (named, call.is_some_and(ServedCall::is_applied_once)) else {
        return Ok(request);
    };
    let path = request.uri().path().to_owned();
    let (mut parts, body) = request.into_parts();
    let whole = match WholeRequest::read(body).await? {
        Arrived::Whole(whole) => whole,
        // It is refused, and so never applied.
        Arrived::TooLarge(body) => return Ok(Request::from_parts(parts, body)),
    };
    let mut hash = Blake2b::<U16>::new();
    let user = parts.extensions.get().map_or("", |CallerName(user)| user.as_str());
    let database = named_database_of(&parts.headers);
    for part in [user.as_bytes(), database.as_bytes(), path.as_bytes(), named.as_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    whole.pieces().for_each(|piece| hash.update(piece));
    set(&mut parts.headers, Uuid::from_bytes(hash.finalize().into()));
    Ok(Request::from_parts(parts, whole.body()))
}

#[cfg(test)]
mod tests {
    use super::super::calls::called;
    use super::*;

    const INSERT: &str = "/milvus.proto.milvus.MilvusService/Insert";

    fn id(
        path: &str,
        headers: &[(&'static str, &str)],
        user: &str,
        message: &[u8],
    ) -> Option<RequestId> {
        let mut bytes = vec![0];
        bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        bytes.extend(message);
        let mut request = Request::new(WholeRequest::of(bytes).body());
        *request.uri_mut() = path.parse().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        request.extensions_mut().insert(CallerName(user.to_owned()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let named = runtime.block_on(named_by_client(request, called(path))).unwrap();
        let found = id_in(named.headers());
        // What was read is still there.
        let (_, body) = named.into_parts();
        let Ok(Arrived::Whole(whole)) = runtime.block_on(WholeRequest::read(body)) else {
            panic!("it is small")
        };
        assert_eq!(whole.pieces().map(<[u8]>::len).sum::<usize>(), message.len() + 5);
        found
    }

    #[test]
    fn a_client_names_a_request_by_all_that_it_asks() {
        let named = [(CLIENT_REQUEST, "7")];
        let one = id(INSERT, &named, "ada", b"rows");
        assert!(one.is_some());
        assert_eq!(one, id(INSERT, &named, "ada", b"rows"));
        let others = [
            id(INSERT, &[(CLIENT_REQUEST, "8")], "ada", b"rows"),
            id(INSERT, &named, "eve", b"rows"),
            id(INSERT, &named, "ada", b"row"),
            id(INSERT, &[(CLIENT_REQUEST, "7"), ("dbname", "d")], "ada", b"rows"),
            id(&INSERT.replace("Insert", "Upsert"), &named, "ada", b"rows"),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(other.is_some() && *other != one, "{at}");
        }
    }

    #[test]
    fn what_nobody_named_has_no_id_and_none_is_taken_from_a_stranger() {
        let own = "00000000-0000-0000-0000-000000000007";
        assert_eq!(id(INSERT, &[], "ada", b"rows"), None);
        assert_eq!(id(INSERT, &[(CLIENT_REQUEST, "")], "ada", b"rows"), None);
        assert_eq!(id(INSERT, &[(REQUEST, own)], "ada", b"rows"), None);
        assert_eq!(
            id(&INSERT.replace("Insert", "Search"), &[(CLIENT_REQUEST, "7")], "", b""),
            None
        );
        let forwarded = [(REQUEST, own), (FORWARDED, "2")];
        assert_eq!(
            id(INSERT, &forwarded, "ada", b"rows"),
            Some(RequestId(*Uuid::from_u128(7).as_bytes()))
        );
    }

    #[test]
    fn a_request_is_named_once() {
        let mut headers = HeaderMap::new();
        name(&mut headers);
        let first = id_in(&headers);
        assert!(first.is_some());
        name(&mut headers);
        assert_eq!(id_in(&headers), first);
        name(&mut HeaderMap::new());
        let mut other = HeaderMap::new();
        name(&mut other);
        assert_ne!(id_in(&other), first);
    }
}
