//! Whose store it is: the object `cluster`, put once.

use bytes::Bytes;
use uuid::Uuid;

use super::{Fields, ObjectBucket, ObjectsError, RetryPatience, put_text, seal, unseal};

/// Its name.
pub const IDENTITY_OBJECT: &str = "cluster";
const MAGIC: [u8; 8] = *b"paclustr";
/// Of names and bytes of all objects together.
const VERSION: u32 = 1;
/// A cluster's name has at most as many bytes.
const NAME_MAX: usize = 255;
/// More than an identity ever has.
const MOST: u64 = 4096;

/// Whose store it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// As people call the cluster.
    pub name: String,
    /// Drawn when the store was first opened; in every object that follows.
    pub uuid: Uuid,
}

impl Identity {
    /// The identity that the store has, which is not made where it has none.
    pub async fn find(
        bucket: &ObjectBucket,
        patience: &RetryPatience,
        name: &str,
    ) -> Result<Self, ObjectsError> {
        let found = patience.retry(|| bucket.get(IDENTITY_OBJECT, MOST)).await?;
        let missing = || ObjectsError::Missing { object: IDENTITY_OBJECT.to_owned() };
        Self::decode(&found.ok_or_else(missing)?)?.named(name)
    }

    fn named(self, name: &str) -> Result<Self, ObjectsError> {
        if self.name == name {
            return Ok(self);
        }
        Err(ObjectsError::OtherCluster { wanted: name.to_owned(), found: self.name })
    }

    /// The identity that the store has, which is made where it has none.
    pub async fn open(
        bucket: &ObjectBucket,
        patience: &RetryPatience,
        name: &str,
    ) -> Result<Self, ObjectsError> {
        if name.is_empty() || name.len() > NAME_MAX {
            let why = format!("a cluster's name has 1 to {NAME_MAX} bytes, not {}", name.len());
            return Err(ObjectsError::Url { url: bucket.shown(), why });
        }
        let mut waits = patience.waits();
        loop {
            // Whatever a put came to, what is read is what counts.
            if let Some(bytes) = patience.retry(|| bucket.get(IDENTITY_OBJECT, MOST)).await? {
                return Self::decode(&bytes)?.named(name);
            }
            let own = Self { name: name.to_owned(), uuid: Uuid::from_u128(patience.token()) };
            match bucket.put_new(IDENTITY_OBJECT, own.encode()).await {
                Err(error @ ObjectsError::Unavailable { .. }) => {
                    if !waits.wait().await {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
    }

    /// As `docs/store-format.md` has it.
    pub fn encode(&self) -> Bytes {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(self.uuid.as_bytes());
        put_text(&mut bytes, &self.name);
        seal(&mut bytes);
        bytes.into()
    }

    /// Reads what [`encode`](Self::encode) made.
    pub fn decode(bytes: &[u8]) -> Result<Self, ObjectsError> {
        let damaged = || ObjectsError::damaged(IDENTITY_OBJECT, "is not a cluster's identity");
        let mut fields = Fields(bytes);
        if fields.array() != Some(MAGIC) {
            return Err(damaged());
        }
        // Before the checksum, which a later version may have elsewhere.
        let version = fields.u32().ok_or_else(damaged)?;
        if version != VERSION {
            let object = IDENTITY_OBJECT.to_owned();
            return Err(ObjectsError::Newer { object, version, known: VERSION });
        }
        let (body, _) = unseal(bytes).ok_or_else(damaged)?;
        let mut fields = Fields(&body[MAGIC.len() + 4..]);
        let mut read = || {
            let uuid = Uuid::from_bytes(fields.array()?);
            let name = fields.text()?.to_owned();
            fields.end()?;
            Some(Self { name, uuid })
        };
        read().ok_or_else(damaged)
    }
}
