//! A shard's log as all its readers and leaders see it: the store, whose it is, and how long to try.

use uuid::Uuid;

use super::format::{DecodedObject, OBJECT_MAX, decode};
use super::{LogError, ShardId, names};
use crate::objects::{ObjectBucket, ObjectsError, RetryPatience};

/// A shard's log in a store. A clone is a cheap handle.
#[derive(Clone, Debug)]
pub struct ShardLog {
    pub(super) bucket: ObjectBucket,
    pub(super) cluster: Uuid,
    pub(super) shard: ShardId,
    pub(super) patience: RetryPatience,
    /// Whether the end is found by asking for the next name, and not by a listing, which in a directory
    /// looks at every name there is.
    pub(super) asks_by_name: bool,
    /// What a simulation breaks on purpose.
    #[cfg(test)]
    pub(crate) planted: Option<super::Planted>,
}

impl ShardLog {
    /// The log of `shard` in a store of the cluster `cluster`.
    pub fn new(
        bucket: ObjectBucket,
        cluster: Uuid,
        shard: ShardId,
        patience: RetryPatience,
    ) -> Self {
        Self {
            bucket,
            cluster,
            shard,
            patience,
            asks_by_name: false,
            #[cfg(test)]
            planted: None,
        }
    }

    /// The same, in a store where a name costs less than a listing: a directory.
    #[must_use]
    pub fn asking_by_name(self) -> Self {
        Self { asks_by_name: true, ..self }
    }

    /// The number of the object after `number`, if there is one.
    pub(super) async fn next_number(&self, number: u64) -> Result<Option<u64>, LogError> {
        if !self.asks_by_name {
            return Ok(self.numbers_after(number).await?.first().copied());
        }
        match self.get(number + 1).await? {
            Some(_) => Ok(Some(number + 1)),
            None => self.not_cut(number + 1).await.map(|()| None),
        }
    }

    /// Its shard.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    pub(super) fn name(&self, number: u64) -> String {
        names::object(self.shard, number)
    }

    /// The object of that number, if there is one; it says itself where it belongs.
    pub(super) async fn get(&self, number: u64) -> Result<Option<DecodedObject>, LogError> {
        let name = self.name(number);
        let bytes = self.patience.retry(|| self.bucket.get(&name, OBJECT_MAX)).await?;
        bytes.map(|bytes| self.decode(number, &bytes)).transpose()
    }

    /// Reads an object and compares whose it is.
    pub(super) fn decode(&self, number: u64, bytes: &[u8]) -> Result<DecodedObject, LogError> {
        let name = self.name(number);
        let object = decode(&name, bytes)?;
        let head = &object.head;
        if (head.cluster, head.shard, head.number) != (self.cluster, self.shard, number) {
            let (shard, number, cluster) = (head.shard, head.number, head.cluster);
            let why = format!("is object {number} of shard {shard} of the cluster {cluster}");
            return Err(LogError::damaged(&name, why));
        }
        Ok(object)
    }

    /// The greatest number above `above`, if there is one.
    pub async fn end(&self, above: u64) -> Result<Option<u64>, ObjectsError> {
        Ok(self.numbers_after(above).await?.last().copied())
    }

    /// Numbers of objects above `number`, ascending.
    pub(super) async fn numbers_after(&self, number: u64) -> Result<Vec<u64>, ObjectsError> {
        let (folder, after) = (names::folder(self.shard), self.name(number));
        let listed = self.patience.retry(|| self.bucket.list(&folder, Some(&after))).await?;
        Ok(listed.iter().filter_map(|it| names::number(&it.name)).collect())
    }
}

/// The shards that have a log in the store, ascending.
pub async fn shards(
    bucket: &ObjectBucket,
    patience: &RetryPatience,
) -> Result<Vec<ShardId>, ObjectsError> {
    let folders = patience.retry(|| bucket.folders(names::LOGS)).await?;
    let mut found: Vec<_> = folders.iter().filter_map(|it| it.parse().ok().map(ShardId)).collect();
    found.sort_unstable();
    Ok(found)
}
