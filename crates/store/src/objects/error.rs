//! What may go wrong with a store, and what the reader of an error can do.

use object_store::Error as Cause;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The same call may succeed later.
    Retry,
    /// The caller, or whoever set it up, has to change something first.
    FixInput,
    /// Nothing that the caller does will help; somebody has to look at it.
    Stop,
}

/// A failure of the object store, or of what it holds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// The URL names no store that is known here.
    #[error("the store's URL {url}: {why}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store lets two puts of one name succeed, so it can't keep old leaders out.
    #[error("the store {store} can't be used: {why}; conditional writes are needed")]
    Unconditional {
        /// As it names itself.
        store: String,
        /// What the probe saw.
        why: String,
    },
    /// The bucket belongs to a cluster of another name.
    #[error("the store holds the cluster {found:?}, not {wanted:?}")]
    OtherCluster {
        /// As the caller names it.
        wanted: String,
        /// As the store names it.
        found: String,
    },
    /// An object was written by a later version of this program.
    #[error("{object}: format version {version}; this program reads up to {known}")]
    Newer {
        /// Its name.
        object: String,
        /// As the object says.
        version: u32,
        /// The newest that is known.
        known: u32,
    },
    /// The store knows the caller and refuses, or does not know the caller.
    #[error("{object}: the store refuses access")]
    Denied {
        /// Its name.
        object: String,
        /// As the store says it.
        #[source]
        cause: Cause,
    },
    /// No answer, or one that says to come back. Whether a put took effect is not known.
    #[error("{object}: the store does not answer")]
    Unavailable {
        /// Its name.
        object: String,
        /// As the store says it.
        #[source]
        cause: Cause,
    },
    /// The store says "exists" of a name whenever it is put, and has no such object whenever it is read.
    #[error("{object}: exists when it is put, and does not when it is read")]
    Undecided {
        /// Its name.
        object: String,
    },
    /// The bytes are not what was put there.
    #[error("{object}: {why}")]
    Damaged {
        /// Its name.
        object: String,
        /// What was expected.
        why: String,
    },
    /// An object is missing that another one names.
    #[error("{object}: is missing")]
    Missing {
        /// Its name.
        object: String,
    },
    /// A directory could not be synced after a name was made in it: nobody knows what is durable.
    #[error(
        "{store}: a directory could not be synced; no more is written until it is opened again"
    )]
    Unsynced {
        /// As it names itself.
        store: String,
    },
    /// A file on this machine could not be read or written.
    #[error("{path}")]
    Local {
        /// The file.
        path: String,
        /// As the system says it.
        #[source]
        cause: std::io::Error,
    },
}

impl ObjectsError {
    /// What to do about it.
    pub fn advice(&self) -> Advice {
        match self {
            Self::Unavailable { .. } | Self::Undecided { .. } => Advice::Retry,
            Self::Url { .. }
            | Self::Unconditional { .. }
            | Self::OtherCluster { .. }
            | Self::Denied { .. }
            | Self::Local { .. } => Advice::FixInput,
            Self::Newer { .. }
            | Self::Damaged { .. }
            | Self::Missing { .. }
            | Self::Unsynced { .. } => Advice::Stop,
        }
    }

    /// Whether an object is missing or has bytes that are of no use here: another one may do instead.
    pub fn is_of_contents(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Newer { .. } | Self::Missing { .. })
    }

    /// Sorts what the store said of an object.
    pub(super) fn of(object: &str, cause: Cause) -> Self {
        let object = object.to_owned();
        match cause {
            Cause::PermissionDenied { .. } | Cause::Unauthenticated { .. } => {
                Self::Denied { object, cause }
            }
            Cause::NotFound { .. } => Self::Missing { object },
            cause if is_of_credentials(&cause) => Self::Denied { object, cause },
            cause => Self::Unavailable { object, cause },
        }
    }

    /// The bytes of `object` are not what they should be.
    pub(crate) fn damaged(object: &str, why: impl Into<String>) -> Self {
        Self::Damaged { object: object.to_owned(), why: why.into() }
    }
}

/// Codes of S3 for credentials that have run out or are none. It answers them by the status of a request that
/// is malformed.
const OF_CREDENTIALS: [&str; 3] = ["ExpiredToken", "InvalidToken", "TokenRefreshRequired"];

/// Whether the store has refused the credentials; it is told by the text of its answer alone.
fn is_of_credentials(cause: &Cause) -> bool {
    let Cause::Generic { source, .. } = cause else { return false };
    let mut error: Option<&(dyn std::error::Error + 'static)> = Some(&**source);
    while let Some(said) = error {
        let text = said.to_string();
        if OF_CREDENTIALS.iter().any(|code| text.contains(&format!("<Code>{code}</Code>"))) {
            return true;
        }
        error = said.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_have_run_out_are_not_a_store_that_does_not_answer() {
        let said = |body: &str| {
            let source = format!("Client error with status 400 Bad Request: {body}").into();
            ObjectsError::of("log/1", Cause::Generic { store: "S3", source })
        };
        let expired = said("<Error><Code>ExpiredToken</Code><Message>expired</Message></Error>");
        assert!(matches!(expired, ObjectsError::Denied { .. }), "{expired}");
        assert_eq!(expired.advice(), Advice::FixInput);
        let other = said("<Error><Code>SlowDown</Code></Error>");
        assert!(matches!(other, ObjectsError::Unavailable { .. }), "{other}");
    }
}
