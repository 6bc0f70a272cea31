//! How old objects are, by the store's own time.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};

use super::{Generations, names};
use crate::objects::ObjectsError;

/// A doom older than this was left by a collector that will not go on, or is of deletes that are long
/// done.
pub(super) const DOOM_LIFE: Duration = Duration::from_secs(24 * 3600);

impl Generations {
    /// The store's own time, by an object that is put now and deleted.
    pub async fn time(&self) -> Result<DateTime<Utc>, ObjectsError> {
        let name = names::drawn(names::CLOCKS, self.patience.token());
        self.patience.retry(|| self.bucket.put_over(&name, Bytes::new())).await?;
        let found = self.patience.retry(|| self.bucket.head(&name)).await?;
        self.delete(&name).await?;
        found.map(|it| it.modified).ok_or(ObjectsError::Missing { object: name })
    }
}

pub(super) fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

/// Whether `span` has passed since `since`, as of `now`.
pub(super) fn is_past(since: DateTime<Utc>, span: Duration, now: DateTime<Utc>) -> bool {
    now.signed_duration_since(since) > delta(span)
}
