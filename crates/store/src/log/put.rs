//! A put of which the caller knows what came.
//!
//! "Exists", a time-out and a refusal are no outcomes. The name is read back: the caller's own token
//! is success, absence means another try, and another's token means that the name is taken for good.
//! The store's own time-outs are relied on; a put that is cut off here could still be under way.

use bytes::Bytes;

use super::format::{DecodedObject, OBJECT_MAX};
use super::{LogError, ShardLog};
use crate::objects::{ObjectsError, PutOutcome};

/// What came of a put.
pub(super) enum Settled {
    /// The object is there, as it was given.
    Own,
    /// Another object has the name.
    Taken(Box<DecodedObject>),
}

impl ShardLog {
    /// Puts object `number` until its outcome is known. An error is `Unreachable`, when time is up or
    /// nobody can tell what is durable, or `Damaged`.
    pub(super) async fn put_settled(
        &self,
        number: u64,
        bytes: Bytes,
        token: u128,
    ) -> Result<Settled, LogError> {
        let name = self.name(number);
        let mut waits = self.patience.waits();
        loop {
            let put = self.bucket.put_new(&name, bytes.clone()).await;
            let doubt = match put {
                Ok(PutOutcome::Done) => return Ok(Settled::Own),
                Ok(PutOutcome::Exists) => None,
                Err(cause @ ObjectsError::Unsynced { .. }) => {
                    return Err(self.unreachable(number, cause));
                }
                Err(cause) => Some(cause),
            };
            #[cfg(test)]
            if self.planted == Some(super::Planted::NoReadBack) && doubt.is_none() {
                return Ok(Settled::Own);
            }
            // Tries the reading alone again, as a put that follows it tells nothing by itself.
            let mut unread = None;
            let found = loop {
                match self.bucket.get(&name, OBJECT_MAX).await {
                    Ok(found) => break found,
                    Err(cause @ ObjectsError::Unsynced { .. }) => {
                        return Err(self.unreachable(number, cause));
                    }
                    Err(cause) if waits.wait().await => unread = Some(cause),
                    Err(cause) => return Err(self.unreachable(number, cause)),
                }
            };
            if let Some(found) = found {
                let object = self.decode(number, &found)?;
                if object.head.token == token {
                    return Ok(Settled::Own);
                }
                return Ok(Settled::Taken(Box::new(object)));
            }
            if !waits.wait().await {
                let undecided = || ObjectsError::Undecided { object: name.clone() };
                let cause = doubt.or(unread).unwrap_or_else(undecided);
                return Err(self.unreachable(number, cause));
            }
        }
    }

    fn unreachable(&self, number: u64, cause: ObjectsError) -> LogError {
        LogError::Unreachable { shard: self.shard, number, cause }
    }
}
