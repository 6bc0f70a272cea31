//! Opening a store.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::pool::StoreRuntime;
use crate::generations::Generations;
use crate::log::{self, ShardId, ShardLog};
use crate::objects::{
    self, Identity, ObjectBucket, ObjectsError, OfThisMachine, RetryPatience, StoreRequests,
    StoreUrl, Surroundings,
};

/// How long an operation is tried again by default.
const PATIENCE: Duration = Duration::from_secs(20);

/// An object store that holds one cluster. A clone is a cheap handle.
#[derive(Clone, Debug)]
pub struct ClusterStore {
    inner: Arc<StoreHandle>,
}

#[derive(Debug)]
struct StoreHandle {
    bucket: ObjectBucket,
    identity: Identity,
    patience: RetryPatience,
    pool: StoreRuntime,
    local: bool,
}

impl ClusterStore {
    /// Opens the store at `url` (`file:///shared/dir`, `s3://bucket/prefix`, `memory://name`) for the
    /// cluster `cluster`, probes it, and makes it that cluster's where it is nobody's.
    ///
    /// Settings of S3 are those of the environment, as [`objects::open`] says. What does not answer is
    /// tried again for 20 seconds. Fails with `Url`, `Unconditional`, `OtherCluster`, `Newer`, `Denied`
    /// or `Unavailable`.
    pub fn open(url: &str, cluster: &str) -> Result<Self, ObjectsError> {
        Self::open_with(url, cluster, PATIENCE)
    }

    /// The same, where every operation is tried again for `patience` instead of 20 seconds.
    pub fn open_with(url: &str, cluster: &str, patience: Duration) -> Result<Self, ObjectsError> {
        Self::opened(url, cluster, patience, true)
    }

    /// Opens a store that is a cluster's already, to read what is there: nothing is put, and so nothing is
    /// probed. Fails with `Missing` where it is nobody's, and as [`open`](Self::open).
    pub fn open_to_read(
        url: &str,
        cluster: &str,
        patience: Duration,
    ) -> Result<Self, ObjectsError> {
        if let StoreUrl::Directory(root) = StoreUrl::parse(url)?
            && !root.is_dir()
        {
            // Opening would make it.
            return Err(ObjectsError::Missing { object: root.display().to_string() });
        }
        Self::opened(url, cluster, patience, false)
    }

    fn opened(
        url: &str,
        cluster: &str,
        patience: Duration,
        claims: bool,
    ) -> Result<Self, ObjectsError> {
        let local = !matches!(StoreUrl::parse(url)?, StoreUrl::S3 { .. });
        let (url, cluster) = (url.to_owned(), cluster.to_owned());
        let patience = RetryPatience::new(patience, Arc::new(OfThisMachine::default()));
        let pool = StoreRuntime::new()
            .map_err(|cause| ObjectsError::Local { path: "threads".to_owned(), cause })?;
        let kept = patience.clone();
        let (bucket, identity) = pool.wait(async move {
            let bucket = objects::open(&url)?;
            let identity = if claims {
                objects::probe(&bucket, &kept).await?;
                Identity::open(&bucket, &kept, &cluster).await?
            } else {
                Identity::find(&bucket, &kept, &cluster).await?
            };
            Ok::<_, ObjectsError>((bucket, identity))
        })?;
        Ok(Self { inner: Arc::new(StoreHandle { bucket, identity, patience, pool, local }) })
    }

    /// A handle of a simulated store, whose work is done by the caller's own thread; `surroundings` are
    /// those of one server, and their waits block. `local` as [`is_local`](Self::is_local).
    pub fn simulated(
        bucket: ObjectBucket,
        cluster: &str,
        surroundings: Arc<dyn Surroundings>,
        local: bool,
    ) -> Result<Self, ObjectsError> {
        let patience = RetryPatience::new(PATIENCE, Arc::clone(&surroundings));
        let pool = StoreRuntime::Caller(surroundings);
        let (kept, name, of) = (patience.clone(), cluster.to_owned(), bucket.clone());
        let identity = pool.wait(async move { Identity::open(&of, &kept, &name).await })?;
        Ok(Self { inner: Arc::new(StoreHandle { bucket, identity, patience, pool, local }) })
    }

    /// The uuid that the cluster was given when its store was first opened.
    pub fn cluster_id(&self) -> Uuid {
        self.inner.identity.uuid
    }

    /// The lowest number that is part of a shard's log; from one listing. What is below was cut off.
    pub fn log_begin(&self, shard: ShardId) -> Result<u64, ObjectsError> {
        let log = self.log(shard);
        self.pool().wait(async move { log.begin().await })
    }

    /// The greatest number of a shard's log, if it is above `above`; from one listing.
    pub fn log_end(&self, shard: ShardId, above: u64) -> Result<Option<u64>, ObjectsError> {
        let log = self.log(shard);
        self.pool().wait(async move { log.end(above).await })
    }

    /// Whether it is a directory or memory, where a look costs next to nothing.
    pub fn is_local(&self) -> bool {
        self.inner.local
    }

    /// The cluster's name.
    pub fn cluster(&self) -> &str {
        &self.inner.identity.name
    }

    /// What was asked of it so far, by this handle and its clones.
    pub fn requests(&self) -> StoreRequests {
        self.inner.bucket.requests()
    }

    pub(super) fn pool(&self) -> &StoreRuntime {
        &self.inner.pool
    }

    pub(super) fn generations(&self) -> Generations {
        let StoreHandle { bucket, identity, patience, .. } = &*self.inner;
        Generations::new(bucket.clone(), identity.uuid, patience.clone())
    }

    pub(super) fn log(&self, shard: ShardId) -> ShardLog {
        let StoreHandle { bucket, identity, patience, local, .. } = &*self.inner;
        let log = ShardLog::new(bucket.clone(), identity.uuid, shard, patience.clone());
        if *local { log.asking_by_name() } else { log }
    }
}

/// The shards that have a log in the store, ascending.
pub fn shards(store: &ClusterStore) -> Result<Vec<ShardId>, ObjectsError> {
    let (bucket, patience) = (store.inner.bucket.clone(), store.inner.patience.clone());
    store.pool().wait(async move { log::shards(&bucket, &patience).await })
}
