//! Where a log begins: notes named by a number, of which the greatest counts.
//!
//! A note is put before anything is deleted, so whoever misses an object finds why. Notes only grow;
//! two leaders that cut at once can't take each other's back.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::format::ObjectKind;
use super::{LogError, ShardLog, names};
use crate::objects::ObjectsError;

/// Objects that are deleted at once.
const DELETES: usize = 8;

impl ShardLog {
    /// The lowest number that is part of the log.
    pub async fn begin(&self) -> Result<u64, ObjectsError> {
        let folder = names::cuts(self.shard);
        let listed = self.patience.retry(|| self.bucket.list(&folder, None)).await?;
        Ok(listed.iter().filter_map(|it| names::number(&it.name)).max().unwrap_or(1).max(1))
    }

    /// Fails where object `number` is below the newest cut.
    pub(super) async fn not_cut(&self, number: u64) -> Result<(), LogError> {
        let begin = self.begin().await?;
        if begin <= number {
            return Ok(());
        }
        Err(LogError::Cut { shard: self.shard, wanted: number, begin })
    }

    /// Makes `begin` the log's first object, and deletes what is below but for openings.
    ///
    /// `opening` is the newest opening. Returns how many objects were deleted.
    pub(super) async fn cut(&self, begin: u64, opening: u64) -> Result<u64, LogError> {
        let openings = self.openings(opening).await?;
        let note = names::cut(self.shard, begin);
        // The note says all by its name, so it may be put as often as one likes.
        self.patience.retry(|| self.bucket.put_over(&note, Bytes::new())).await?;
        let below: Vec<String> = self
            .numbers_after(0)
            .await?
            .into_iter()
            .filter(|number| *number < begin && !openings.contains(number))
            .map(|number| self.name(number))
            .collect();
        let deleted = below.len() as u64;
        let folder = names::cuts(self.shard);
        let notes = self.patience.retry(|| self.bucket.list(&folder, None)).await?;
        let newest = notes.iter().filter_map(|it| names::number(&it.name)).max();
        let older = notes.into_iter().map(|it| it.name).filter(|it| names::number(it) < newest);
        stream::iter(below.into_iter().chain(older))
            .map(|name| async move { self.patience.retry(|| self.bucket.delete(&name)).await })
            .buffer_unordered(DELETES)
            .try_collect::<()>()
            .await?;
        Ok(deleted)
    }

    /// The numbers of all openings: each names the one before it.
    async fn openings(&self, newest: u64) -> Result<BTreeSet<u64>, LogError> {
        let mut found = BTreeSet::new();
        #[cfg(test)]
        if self.planted == Some(super::Planted::OpeningsDeleted) {
            return Ok(found);
        }
        let mut next = newest;
        while next > 0 {
            let missing = || LogError::damaged(&self.name(next), "is a missing opening");
            let head = self.get(next).await?.ok_or_else(missing)?.head;
            if head.kind != ObjectKind::Opening || head.opening >= next {
                return Err(LogError::damaged(&self.name(next), "is no opening"));
            }
            found.insert(next);
            next = head.opening;
        }
        Ok(found)
    }
}
