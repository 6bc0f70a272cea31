//! What servers say to each other beside a call that one has sent on to another, and beside its answer.

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;
use tonic::metadata::MetadataValue;

/// What a server shows another one, so that its marks are believed.
pub(super) const KEY: &str = "pipeann-server-key";
/// Marks a call that another server has sent on; says which one.
pub(super) const FORWARDED: &str = "pipeann-forwarded-by";
/// Marks the refusal of a call that was sent to the wrong server, and was not begun.
pub(super) const REFUSED: &str = "pipeann-does-not-lead";
/// The timestamp that names a change, in the leader's answer to the server that sent it on.
pub(super) const WRITTEN: &str = "pipeann-written";
/// Marks an answer that says nothing of whether the change was made: what was about to make it ended. Whoever leads
/// next knows.
pub(super) const UNSETTLED: &str = "pipeann-unsettled";

/// The code of Milvus, in the answer to a read that was sent on and failed.
pub(super) const FAILED: &str = "pipeann-failed";
/// The timestamp of what the server has that sends a read on, so that no answer is older than its own.
pub(super) const READ_AFTER: &str = "pipeann-read-after";

/// Whether an answer says nothing of whether the change was made.
pub(super) fn is_unsettled(response: &Response<Body>) -> bool {
    let headers = response.headers();
    headers.contains_key(UNSETTLED) || headers.contains_key(REFUSED)
}

/// Refuses a call for the leader that came to this server, and was not begun.
pub(super) fn does_not_lead() -> Status {
    let mut refusal = Status::unavailable("this server does not lead");
    refusal.metadata_mut().insert(REFUSED, MetadataValue::from_static("true"));
    refusal
}
