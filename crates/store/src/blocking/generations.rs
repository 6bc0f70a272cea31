//! Publishing, fetching, pinning and collecting the generations of a shard.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ClusterStore, ShardLeader};
use crate::generations::{
    Collected, Collecting, Fetched, FileSource, GenerationId, Generations, LeasedPin,
    ShardGeneration, StoredFile,
};
use crate::log::{LogError, Position, ShardId};
use crate::objects::ObjectsError;

/// The generations of a shard. A clone is a cheap handle.
#[derive(Clone, Debug)]
pub struct ShardGenerations {
    store: ClusterStore,
    shard: ShardId,
}

impl ShardGenerations {
    /// Those of `shard` in `store`. Asks the store nothing.
    pub fn new(store: &ClusterStore, shard: ShardId) -> Self {
        Self { store: store.clone(), shard }
    }

    /// Publishes a generation at `position` of the log, under the leader's `term`: `header`, of at most
    /// 16 MiB, is the caller's own, and `files` are relative paths with `/` between parts and where the
    /// bytes are now. Files whose contents the store has already are not put again.
    ///
    /// The generation is there when this answers, and is not current before the shard's log says so;
    /// for an hour nobody collects it. Files may not change meanwhile. Fails with `Local` for a path or
    /// a file that can't be, `Damaged` where a file changed, `Denied` and `Unavailable`; a later call
    /// finds what was put already.
    pub fn publish(
        &self,
        term: u64,
        position: Position,
        header: &[u8],
        files: &[(String, PathBuf)],
    ) -> Result<ShardGeneration, ObjectsError> {
        let (shard, header) = (self.shard, header.to_vec());
        let file =
            |(path, place): &(String, PathBuf)| (path.clone(), FileSource::File(place.clone()));
        let files: Vec<_> = files.iter().map(file).collect();
        self.on(move |it| async move { it.publish(shard, term, position, &header, &files).await })
    }

    /// The shard's generations, ascending; from one listing.
    pub fn ids(&self) -> Result<Vec<GenerationId>, ObjectsError> {
        let shard = self.shard;
        self.on(move |it| async move { it.ids(shard).await })
    }

    /// A generation, if it is there.
    pub fn get(&self, id: GenerationId) -> Result<Option<ShardGeneration>, ObjectsError> {
        let shard = self.shard;
        self.on(move |it| async move { it.generation(shard, id).await })
    }

    /// The newest generation whose manifest can be read. It may not be current yet, which the shard's log
    /// tells.
    pub fn newest(&self) -> Result<Option<ShardGeneration>, ObjectsError> {
        let shard = self.shard;
        self.on(move |it| async move { it.newest(shard).await })
    }

    /// The store's own time, by an object that is put now and deleted: milliseconds since 1970, rounded
    /// as the store does.
    pub fn time(&self) -> Result<u64, ObjectsError> {
        let time = self.on(move |it| async move { it.time().await })?;
        Ok(u64::try_from(time.timestamp_millis()).unwrap_or(0))
    }

    /// Keeps a generation for `lease`, by the store's own time; `owner` is for people. `None` where it
    /// is gone or going, and a newer one is to be taken.
    pub fn pin(
        &self,
        id: GenerationId,
        owner: &str,
        lease: Duration,
    ) -> Result<Option<LeasedPin>, ObjectsError> {
        let (shard, owner) = (self.shard, owner.to_owned());
        self.on(move |it| async move { it.pin(shard, id, &owner, lease).await })
    }

    /// The shard's generations that somebody has pinned, but for those that are only being published.
    /// Where the log is cut, it is cut at or below their positions.
    pub fn pinned(&self) -> Result<Vec<GenerationId>, ObjectsError> {
        let shard = self.shard;
        self.on(move |it| async move { it.pinned_ids(shard).await })
    }

    /// Begins a pin's lease anew. `false` where the generation is gone or going, or nobody can tell.
    pub fn renew(&self, pin: &mut LeasedPin) -> Result<bool, ObjectsError> {
        let mut own = pin.clone();
        let (own, held) = self.on(move |it| async move {
            let held = it.renew(&mut own).await;
            (own, held)
        });
        *pin = own;
        held
    }

    /// The same, where a sixth of the lease has passed. While it has not passed, that the store does not
    /// answer is no failure.
    pub fn renew_when_due(&self, pin: &mut LeasedPin) -> Result<bool, ObjectsError> {
        let mut own = pin.clone();
        let (own, held) = self.on(move |it| async move {
            let held = it.renew_when_due(&mut own).await;
            (own, held)
        });
        *pin = own;
        held
    }

    /// Gives a pin up before its lease has passed.
    pub fn release(&self, pin: LeasedPin) -> Result<(), ObjectsError> {
        self.on(move |it| async move { it.release(pin).await })
    }

    /// Fetches all files of a generation into `directory`, which is made. Files that are there with
    /// the right bytes are not fetched again, and half a file is gone on with. Each is verified by its
    /// hash and synced before it has its name. At most 32 MiB are in memory, four files are fetched at
    /// once. The caller holds a pin. Fails with `Missing` where it was collected, `Damaged` where the
    /// store's bytes are wrong, `Local`, `Denied` and `Unavailable`; a later call goes on.
    pub fn fetch(
        &self,
        generation: &ShardGeneration,
        directory: &Path,
    ) -> Result<Fetched, ObjectsError> {
        let (generation, directory) = (generation.clone(), directory.to_owned());
        self.on(move |it| async move { it.fetch(&generation, &directory).await })
    }

    /// The same, of what a pin holds, which is renewed as time passes. Fails with `Missing`, too, where
    /// the generation is gone or going meanwhile.
    pub fn fetch_held(
        &self,
        pin: &mut LeasedPin,
        directory: &Path,
    ) -> Result<Fetched, ObjectsError> {
        let (mut own, directory) = (pin.clone(), directory.to_owned());
        let (own, fetched) = self.on(move |it| async move {
            let fetched = it.fetch_held(&mut own, &directory).await;
            (own, fetched)
        });
        *pin = own;
        fetched
    }

    /// Bytes `range` of a file, which is at least that long; at most a few MiB at once. They are not
    /// verified: what reads parts of a file has checksums of its own in it.
    pub fn read_range(
        &self,
        file: &StoredFile,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ObjectsError> {
        let file = file.clone();
        self.on(move |it| async move { it.read_range(&file, range).await.map(Vec::from) })
    }

    /// Collects what nobody wants, of all shards, under the term of `leader`, mostly the catalogue's.
    /// `keep` names what is current or kept for another reason, of every shard; a shard's newest
    /// generation, what is pinned, and what is younger than `grace` stay anyway. One at a time.
    ///
    /// Fails with `Fenced` where the term has ended. Whatever it fails with, nothing that is wanted is
    /// deleted, and a later call goes on.
    pub fn collect(
        leader: &ShardLeader,
        keep: &[(ShardId, GenerationId)],
        grace: Duration,
    ) -> Result<Collected, LogError> {
        let keep = keep.to_vec();
        let generations = leader.store().generations();
        leader.on(move |leader| async move {
            generations.collect(&leader, &Collecting { keep: &keep, grace }).await
        })
    }

    fn on<T, F>(&self, call: impl FnOnce(Generations) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.store.pool().wait(call(self.store.generations()))
    }
}
