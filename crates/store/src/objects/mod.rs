//! An object store at a URL: small objects by name, put if absent, read, listed and deleted.
//!
//! A [`ObjectBucket`] is what the other rooms stand on. Its operations are tried once each and tell what
//! came of it; [`RetryPatience`] tries those again that may be tried again. Opening runs a probe
//! ([`probe()`]), as the fence of every log is that of two puts of one name only the first succeeds, and
//! compares the cluster's identity ([`Identity`]).
//!
//! Deliberately absent: what an object means, threads, and any cache.

mod bucket;
mod codec;
mod connector;
mod counts;
mod directory;
mod error;
mod identity;
mod open;
mod patience;
mod probe;
mod root;
mod surroundings;
mod url;

pub use bucket::{Listed, ObjectBucket, PutOutcome};
pub(crate) use codec::{Fields, put_text, seal, unseal};
pub use counts::StoreRequests;
pub use error::{Advice, ObjectsError};
pub use identity::{IDENTITY_OBJECT, Identity};
pub use open::open;
pub use patience::{RetryPatience, Surroundings};
pub(crate) use probe::PROBES;
pub use probe::probe;
pub use surroundings::OfThisMachine;
pub use url::StoreUrl;

#[cfg(test)]
mod tests;
