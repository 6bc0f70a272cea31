//! How calls end, in the codes and words of the wire.
//!
//! A request that is at fault is answered with a [`Status`] inside an answer that arrived, never with
//! an error of gRPC: clients repeat those for minutes. One table ([`Code::legacy`]) has the codes that
//! old clients look at, and `of_database` maps the errors of the database. Texts that clients and their
//! tests search for begin with the words that they search for.

mod of_database;
mod of_schema;
mod response;

pub(crate) use of_database::metric_name;
pub(crate) use of_schema::{refused, type_name};

pub(crate) use response::Response;

use crate::proto::common::{ErrorCode, Status};

/// Bytes of the longest reason that is told whole.
const MOST_REASON: usize = 16 << 10;

/// What went wrong, as a number of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    ServiceUnavailable,
    MemoryLimit,
    Internal,
    /// Clients wait a little and send it again, longer each time.
    RateLimit,
    CollectionNotFound,
    CollectionNotLoaded,
    TooManyCollections,
    SchemaMismatch,
    PartitionNotFound,
    PartitionNotLoaded,
    IndexNotFound,
    DatabaseNotFound,
    TooManyDatabases,
    InvalidDatabaseName,
    InvalidParameter,
    AliasNotFound,
    AliasCollectionConflict,
    AliasTaken,
    NotAuthenticated,
    FieldNotFound,
    InvalidFieldName,
    Unsupported,
    Unexpected,
}

impl Code {
    pub(crate) const fn number(self) -> i32 {
        match self {
            Self::ServiceUnavailable => 2,
            Self::MemoryLimit => 3,
            Self::Internal => 5,
            Self::RateLimit => 8,
            Self::CollectionNotFound => 100,
            Self::CollectionNotLoaded => 101,
            Self::TooManyCollections => 102,
            Self::SchemaMismatch => 109,
            Self::PartitionNotFound => 200,
            Self::PartitionNotLoaded => 201,
            Self::IndexNotFound => 700,
            Self::DatabaseNotFound => 800,
            Self::TooManyDatabases => 801,
            Self::InvalidDatabaseName => 802,
            Self::InvalidParameter => 1100,
            Self::NotAuthenticated => 1400,
            Self::AliasNotFound => 1600,
            Self::AliasCollectionConflict => 1601,
            Self::AliasTaken => 1602,
            Self::FieldNotFound => 1700,
            Self::InvalidFieldName => 1701,
            Self::Unsupported => 3000,
            Self::Unexpected => 65535,
        }
    }

    /// The code of earlier servers. What has none is an unexpected error.
    const fn legacy(self) -> ErrorCode {
        match self {
            Self::MemoryLimit => ErrorCode::InsufficientMemoryToLoad,
            Self::RateLimit => ErrorCode::RateLimit,
            Self::CollectionNotFound => ErrorCode::CollectionNotExists,
            Self::PartitionNotFound => ErrorCode::MetaFailed,
            Self::SchemaMismatch => ErrorCode::SchemaMismatch,
            Self::IndexNotFound => ErrorCode::IndexNotExist,
            Self::InvalidParameter => ErrorCode::IllegalArgument,
            _ => ErrorCode::UnexpectedError,
        }
    }

    /// Whether the request is at fault, and sending it again is of no use.
    const fn is_input(self) -> bool {
        !matches!(
            self,
            Self::ServiceUnavailable | Self::Internal | Self::RateLimit | Self::Unexpected
        )
    }

    /// Whether the same request may be answered a little later.
    const fn is_retriable(self) -> bool {
        matches!(self, Self::ServiceUnavailable | Self::RateLimit)
    }
}

/// Why a call is refused or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallFailure {
    pub(crate) code: Code,
    pub(crate) reason: String,
}

impl CallFailure {
    pub(crate) fn new(code: Code, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    /// An answer of more bytes than a client takes.
    pub(crate) fn too_large(bytes: usize, most: usize) -> Self {
        Self::parameter(format!(
            "query results exceed the maxOutputSize Limit {most}: the answer would have {bytes} bytes; ask for fewer rows or fields"
        ))
    }

    /// A request with a wrong parameter.
    pub(crate) fn parameter(reason: impl Into<String>) -> Self {
        Self::new(Code::InvalidParameter, reason)
    }

    /// A request for what is not served.
    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::new(Code::Unsupported, format!("{} is not supported by this server", what.into()))
    }

    pub(crate) fn not_loaded(collection: &str) -> Self {
        let reason = format!("collection not loaded[collection={collection}]");
        Self::new(Code::CollectionNotLoaded, reason)
    }

    /// The same for someone on another machine, who has no use for where files of this one are; the
    /// log has the whole of it.
    pub(crate) fn without_path(self, call: &str, dir: &str) -> Self {
        if !self.reason.contains(dir) {
            return self;
        }
        tracing::error!(call, "{}", self.reason);
        let hidden = self.reason.replace(dir, "the data directory");
        Self { reason: hidden, ..self }
    }

    /// A collection that is not there, in the words of the calls that look one up. Clients know both.
    pub(crate) fn when_looked_up(self) -> Self {
        match self.code {
            Code::CollectionNotFound => Self {
                reason: self.reason.replacen("collection not found", "can't find collection", 1),
                ..self
            },
            _ => self,
        }
    }

    /// The same with no more of what it quotes from the request than helps: nobody counts the bytes of a
    /// refusal.
    fn cut(mut self) -> Self {
        if self.reason.len() > MOST_REASON {
            self.reason.truncate(self.reason.floor_char_boundary(MOST_REASON));
            self.reason.push_str(" ...");
        }
        self
    }

    /// As the wire has it.
    pub(crate) fn into_status(self) -> Status {
        let this = self.cut();
        let is_input = this.code.is_input();
        let extra_info = [("is_input_error".to_owned(), is_input.to_string())];
        Status {
            error_code: this.code.legacy().into(),
            code: this.code.number(),
            retriable: this.code.is_retriable(),
            detail: this.reason.clone(),
            reason: this.reason,
            extra_info: extra_info.into_iter().filter(|_| is_input).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_codes_are_set_and_retriable_only_where_it_helps() {
        let failed =
            CallFailure::new(Code::Internal, "cannot sync /srv/data/collections/7/wal/1.wal");
        assert!(!failed.clone().without_path("Insert", "/srv/data").reason.contains("/srv"));
        assert_eq!(failed.clone().without_path("Insert", "/other"), failed);
        let status = CallFailure::not_loaded("c").into_status();
        assert_eq!((status.code, status.error_code()), (101, ErrorCode::UnexpectedError));
        assert_eq!(status.reason, "collection not loaded[collection=c]");
        assert!(!status.retriable);
        assert_eq!(status.extra_info["is_input_error"], "true");
        let status = CallFailure::new(Code::CollectionNotFound, "x").into_status();
        assert_eq!((status.code, status.error_code()), (100, ErrorCode::CollectionNotExists));
        let status = CallFailure::new(Code::ServiceUnavailable, "x").into_status();
        assert!(status.retriable && status.extra_info.is_empty());
        let status = CallFailure::new(Code::RateLimit, "x").into_status();
        assert_eq!((status.code, status.error_code()), (8, ErrorCode::RateLimit));
        assert!(status.retriable && status.extra_info.is_empty());
        let status = CallFailure::parameter("x").into_status();
        assert_eq!((status.code, status.error_code()), (1100, ErrorCode::IllegalArgument));
    }

    #[test]
    fn a_reason_that_quotes_a_long_text_is_cut() {
        let long = CallFailure::parameter("ä".repeat(MOST_REASON)).into_status();
        assert_eq!(long.reason.len(), MOST_REASON + " ...".len());
        assert_eq!(long.detail, long.reason);
    }
}
