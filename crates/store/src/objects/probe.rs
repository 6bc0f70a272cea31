//! Whether a store keeps the promises that everything here stands on.
//!
//! A store is refused by name where a second put of one name succeeds, where two puts at once both do,
//! or where what was put is not read or listed at once.

use bytes::Bytes;
use futures_util::future::join;

use super::{ObjectBucket, ObjectsError, PutOutcome, RetryPatience};

/// Names of the probe's objects begin so; what a crash leaves of them is deleted by collection.
pub(crate) const PROBES: &str = "probe";
/// Puts of one name at once, each by a thread of its own where the store is a directory.
const RACES: u32 = 4;

/// Tries a store with a few small objects, and takes them away again.
pub async fn probe(bucket: &ObjectBucket, patience: &RetryPatience) -> Result<(), ObjectsError> {
    let refuse =
        |why: &str| ObjectsError::Unconditional { store: bucket.shown(), why: why.to_owned() };
    let own = patience.token().to_le_bytes().to_vec();
    let one = format!("{PROBES}/{:032x}", patience.token());
    let first = put(bucket, patience, &one, &own).await?;
    let other = put(bucket, patience, &one, b"another").await?;
    let read = patience.retry(|| bucket.get(&one, 64)).await?;
    let listed = patience.retry(|| bucket.list(PROBES, None)).await?;
    patience.retry(|| bucket.delete(&one)).await?;
    if !first {
        return Err(refuse("a put of a new name is answered with 'exists'"));
    }
    if other || read.as_deref() != Some(&own) {
        return Err(refuse("the second put of one name succeeds"));
    }
    if !listed.iter().any(|it| it.name == one) {
        return Err(refuse("what was put is not listed"));
    }
    if patience.retry(|| bucket.get(&one, 64)).await?.is_some() {
        return Err(refuse("what was deleted is still read"));
    }
    for _ in 0..RACES {
        let name = format!("{PROBES}/{:032x}", patience.token());
        let (a, b) =
            join(put(bucket, patience, &name, b"one"), put(bucket, patience, &name, b"two")).await;
        patience.retry(|| bucket.delete(&name)).await?;
        if a? == b? {
            return Err(refuse("of two puts of one name at once, not exactly one succeeds"));
        }
    }
    Ok(())
}

/// Whether the object is there as given. An unknown outcome is read back, as always.
async fn put(
    bucket: &ObjectBucket,
    patience: &RetryPatience,
    name: &str,
    bytes: &[u8],
) -> Result<bool, ObjectsError> {
    let mut waits = patience.waits();
    loop {
        let put = bucket.put_new(name, Bytes::copy_from_slice(bytes)).await;
        match put {
            Ok(PutOutcome::Done) => return Ok(true),
            Ok(PutOutcome::Exists) | Err(ObjectsError::Unavailable { .. }) => {}
            Err(error) => return Err(error),
        }
        if let Some(found) = patience.retry(|| bucket.get(name, 64)).await? {
            return Ok(found == bytes);
        }
        if !waits.wait().await {
            return match put {
                Err(error) => Err(error),
                Ok(_) => Ok(false),
            };
        }
    }
}
