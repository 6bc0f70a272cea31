//! Leading and reading the log of a shard.

use std::sync::{Arc, Mutex, PoisonError};

use super::ClusterStore;
use crate::log::{
    Batch, BoxError, EncodedEntries, EntryRef, LeaderName, LogError, Opening, Position, Reader,
    ShardId, Stamp, TermLeader,
};

/// Leads a shard. Shared between threads as it is; appends wait for each other.
pub struct ShardLeader {
    store: ClusterStore,
    leader: Arc<TermLeader>,
}

impl ShardLeader {
    /// Opens a term above all there are, behind all that is in the log.
    ///
    /// `apply` is handed every batch after `from`, on this thread and in order, before the term is
    /// open; those that open terms hold no records. A leader before this one meets `Fenced` at its next
    /// append. Fails with `Cut` or `Diverged` where a generation has to be taken first, `Apply` where
    /// `apply` failed, `Unreachable` where the opening came to no outcome, `Damaged`, and `Objects`.
    pub fn open(
        store: &ClusterStore,
        shard: ShardId,
        from: Option<Position>,
        leader: &LeaderName,
        apply: &mut dyn FnMut(Batch) -> Result<(), BoxError>,
    ) -> Result<Self, LogError> {
        let opened = Self::open_while(store, shard, from, leader, &mut || true, apply)?;
        Ok(opened.expect("it is wanted all the time"))
    }

    /// The same, where the opening is put only if `is_wanted` still says so when the log has been read to
    /// its end; `None` where it does not. Asked on this thread, before each put of the opening.
    pub fn open_while(
        store: &ClusterStore,
        shard: ShardId,
        from: Option<Position>,
        leader: &LeaderName,
        is_wanted: &mut dyn FnMut() -> bool,
        apply: &mut dyn FnMut(Batch) -> Result<(), BoxError>,
    ) -> Result<Option<Self>, LogError> {
        let (log, leader) = (store.log(shard), leader.clone());
        let mut opening = store.pool().wait(Opening::new(log, from, leader))?;
        loop {
            let (mut kept, read) = store.pool().wait(async move {
                let read = opening.read().await;
                (opening, read)
            });
            if let Some(batch) = read? {
                let position = batch.position;
                apply(batch).map_err(|cause| LogError::Apply { shard, position, cause })?;
                opening = kept;
                continue;
            }
            if !is_wanted() {
                return Ok(None);
            }
            let (kept, opened) = store.pool().wait(async move {
                let opened = kept.put().await;
                (kept, opened)
            });
            if let Some(leader) = opened? {
                return Ok(Some(Self { store: store.clone(), leader: Arc::new(leader) }));
            }
            opening = kept;
        }
    }

    /// The term that it opened; counted from 1.
    pub fn term(&self) -> u64 {
        self.leader.term()
    }

    /// The shard.
    pub fn shard(&self) -> ShardId {
        self.leader.log().shard()
    }

    /// The last object that is known to be in the log: an append's, or the opening's.
    pub fn position(&self) -> Position {
        self.on(|leader| async move { leader.position().await })
    }

    /// The stamp of that object; the next one's timestamp may not be below.
    pub fn stamp(&self) -> Stamp {
        self.on(|leader| async move { leader.stamp().await })
    }

    /// Puts records as one object, and answers with its position when it is known to be in the log.
    ///
    /// The order of calls at once is not defined; each waits for the one before. `Fenced`,
    /// `Unreachable` and `Damaged` end the leader: every later call is answered with `Poisoned`. After
    /// `Unreachable` the records may be in the log or appear there, which the next opening tells.
    /// `TooLarge` and `Backwards` change nothing.
    pub fn append(&self, stamp: Stamp, entries: &[EntryRef<'_>]) -> Result<Position, LogError> {
        let entries = EncodedEntries::new(entries)?;
        self.on(move |leader| async move { leader.append(stamp, &entries).await })
    }

    /// Fails with `Fenced` where a later term is known to be open; one listing of the store.
    pub fn verify(&self) -> Result<(), LogError> {
        self.on(|leader| async move { leader.verify().await })
    }

    /// Makes `position` the log's first object and deletes what is below, but for openings. Returns how
    /// many objects were deleted. `position` is at most that of a generation that is current, and below
    /// it nothing is wanted by a backup, a pin or a setting; readers behind it meet `Cut`.
    ///
    /// # Panics
    /// If `position` is beyond the leader's own.
    pub fn truncate_before(&self, position: Position) -> Result<u64, LogError> {
        self.on(move |leader| async move { leader.truncate_before(position).await })
    }

    pub(super) fn store(&self) -> &ClusterStore {
        &self.store
    }

    pub(super) fn on<T, F>(&self, call: impl FnOnce(Arc<TermLeader>) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.store.pool().wait(call(Arc::clone(&self.leader)))
    }
}

/// Reads the log of a shard in order.
pub struct ShardReader {
    store: ClusterStore,
    /// Away only while a call is under way.
    reader: Mutex<Option<Reader>>,
}

impl ShardReader {
    /// A reader of what follows `from`, which the caller has applied; of everything if it has nothing.
    ///
    /// Fails with `Cut` where the log no longer reaches back to there, with `Diverged` where the log has
    /// no such position, so that what the caller has is to be thrown away, and with `Objects`.
    pub fn open(
        store: &ClusterStore,
        shard: ShardId,
        from: Option<Position>,
    ) -> Result<Self, LogError> {
        let reader = store.pool().wait(Reader::open(store.log(shard), from))?;
        Ok(Self { store: store.clone(), reader: Mutex::new(Some(reader)) })
    }

    /// The next batch, or `None` where there is no more for now. Batches that open terms hold no
    /// records. At the log's end a call costs one listing.
    ///
    /// After `Objects` the call may be tried again; `Cut` asks for a generation; `Damaged` is for
    /// people.
    #[expect(
        clippy::should_implement_trait,
        reason = "an end that is for now is not an iterator's"
    )]
    pub fn next(&mut self) -> Result<Option<Batch>, LogError> {
        let mut reader = self.take();
        let (kept, result) = self.store.pool().wait(async move {
            let result = reader.next().await;
            (reader, result)
        });
        self.put_back(kept);
        result
    }

    /// Tells that the log reaches object `number`, as its leader says: the next calls spare a listing.
    pub fn expect(&mut self, number: u64) {
        let mut reader = self.take();
        reader.expect(number);
        self.put_back(reader);
    }

    /// The position of the last batch given out, or where reading began.
    pub fn position(&self) -> Option<Position> {
        self.look(Reader::position)
    }

    /// The stamp of the object at that position, where there is one.
    pub fn stamp(&self) -> Option<Stamp> {
        self.look(Reader::stamp)
    }

    /// How many listings of the store have shown something so far.
    pub fn listings(&self) -> u64 {
        self.look(Reader::listings)
    }

    /// Whether all is given out that the last listing has shown. Where others write all the time, it is
    /// this that tells that a reader has come to where the log ended when the listing was asked for.
    pub fn has_given_all_listed(&self) -> bool {
        self.look(Reader::has_given_all_listed)
    }

    fn look<T>(&self, of: impl FnOnce(&Reader) -> T) -> T {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        of(reader.as_ref().expect("put back by the call before"))
    }

    fn take(&mut self) -> Reader {
        let reader = self.reader.get_mut().unwrap_or_else(PoisonError::into_inner);
        reader.take().expect("put back by the call before")
    }

    fn put_back(&mut self, reader: Reader) {
        *self.reader.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(reader);
    }
}
