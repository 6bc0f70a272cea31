//! What stands beside the request of a call: who makes it, and which database it is about where the request
//! names none.

use pipeann_db::catalog::limits::DEFAULT_DATABASE;
use tonic::codegen::http::HeaderMap;
use tonic::metadata::MetadataMap;

/// The database of a call, for clients that name it beside the request.
const DATABASE_KEY: &str = "dbname";

/// Who made a call, where it is asked.
#[derive(Clone, Debug)]
pub(super) struct CallerName(pub(super) String);

/// The database that is named beside a request.
pub(super) fn named_database(metadata: &MetadataMap) -> Option<&str> {
    let named = metadata.get(DATABASE_KEY).and_then(|name| name.to_str().ok());
    named.filter(|name| !name.is_empty())
}

/// As [`named_database`], of what a request begins with.
pub(super) fn named_database_of(headers: &HeaderMap) -> &str {
    let named = headers.get(DATABASE_KEY).and_then(|name| name.to_str().ok());
    named.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_DATABASE)
}
