//! URLs of stores: `file:///shared/dir`, `s3://bucket/prefix`, `memory://`.

use std::path::PathBuf;

use super::ObjectsError;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// `file:///shared/dir`: a directory that all servers see at once.
    Directory(PathBuf),
    /// `s3://bucket/prefix`: S3, or what speaks its protocol.
    S3 {
        /// The bucket.
        bucket: String,
        /// What all names begin with; may be empty.
        prefix: String,
    },
    /// `memory://name`: this process alone, for tests. Without a name nobody else finds it.
    Memory(String),
}

impl StoreUrl {
    /// Reads a URL; a scheme that is not known is refused by name.
    pub fn parse(url: &str) -> Result<Self, ObjectsError> {
        let wrong = |why: &str| ObjectsError::Url { url: url.to_owned(), why: why.to_owned() };
        let schemeless = || match url.starts_with('/') {
            true => wrong(&format!("is no URL; a directory is file://{url}")),
            false => wrong(
                "is no URL; file:///DIRECTORY, with its whole path, and s3://BUCKET/PREFIX are",
            ),
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(schemeless)?;
        if rest.contains(['?', '#']) {
            return Err(wrong("may have no query and no fragment"));
        }
        let rest = rest.trim_end_matches('/');
        match scheme {
            "file" if rest.starts_with('/') => Ok(Self::Directory(PathBuf::from(rest))),
            "file" => Err(wrong("needs an absolute path after file://")),
            "s3" => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                if bucket.is_empty() {
                    return Err(wrong("names no bucket"));
                }
                Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
            }
            "memory" => Ok(Self::Memory(rest.to_owned())),
            other => Err(wrong(&format!("{other:?} is not known; file, s3 and memory are"))),
        }
    }
}
