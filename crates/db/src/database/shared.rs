//! A database that several servers have: changes of the log that they share, applied in its order, and
//! the change between leading and following.
//!
//! What a change of the catalogue brings about is done in the order of a leader's own changes: the
//! directory of a collection is there before the catalogue names it, and goes after the catalogue has
//! forgotten it. Records of collections that the catalogue has no more are passed over. One that it
//! has, and that could not be opened, is opened before anything goes on: its rows would be missing.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::{Database, DatabaseError};
use crate::catalog::{CollectionEntry, CollectionId, IndexState, Snapshot, UnixMs, WantedLoad};
use crate::collection::{self, Collection, CollectionIdentity, collection_dir};
use crate::disk::remove_tree;
use crate::replication::{
    KnownRequests, Leadership, LogStanding, SharedChange, SharedLog, SharedLogError,
};

impl Database {
    /// What this server is to the log that servers share; `None` where only this one has the database.
    pub fn leadership(&self) -> Option<&Arc<Leadership>> {
        self.home.shared.as_ref()
    }

    /// The requests that are applied once, however often they come.
    pub fn requests(&self) -> &Arc<KnownRequests> {
        &self.requests
    }

    /// Applies the next change of the shared log; one that is included already changes nothing.
    /// `written` is when the leader put it there. One thread calls it.
    ///
    /// # Errors
    /// [`DatabaseError::Shared`] where this server leads, changes before it are missing, or it is
    /// damaged; else what a disk says. It may be applied again then.
    pub fn apply_shared(
        &self,
        change: &SharedChange<'_>,
        written: UnixMs,
    ) -> Result<(), DatabaseError> {
        if self.leadership().is_none_or(|leadership| leadership.leads()) {
            let why = "it leads, or shares no log".to_owned();
            return Err(SharedLogError::Damaged { of: "this server".into(), why }.into());
        }
        match *change {
            SharedChange::Catalog { revision, delta } => {
                let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
                match self.catalog.foresee(revision, delta)? {
                    Some(state) => self.follow_catalog(state),
                    // An attempt before may have come no further than to the catalogue.
                    None => self.open_missing(),
                }
            }
            SharedChange::Access { file } => Ok(self.access.follow(file)?),
            SharedChange::Request(request) => {
                self.requests.remember(request);
                Ok(())
            }
            SharedChange::Record { collection, seq, kind, payload } => {
                let Some(collection) = self.named_collection(CollectionId(collection))? else {
                    return Ok(());
                };
                let applied = collection.apply_shared(seq, kind, payload, written);
                applied.map(drop).map_err(|error| self.of_collection(&collection, error))
            }
        }
    }

    /// From now on changes are made here, by a log whose changes so far are all applied.
    ///
    /// # Errors
    /// What a collection says, also one that could not be opened before; this server then follows.
    pub fn lead(&self, log: Arc<dyn SharedLog>) -> Result<(), DatabaseError> {
        let Some(leadership) = self.leadership() else {
            let why = "only this server has it".to_owned();
            return Err(SharedLogError::NotLeading { why }.into());
        };
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.open_missing()?;
        leadership.set(LogStanding::Leads(log));
        let collections = self.all_collections();
        let led = collections.iter().try_for_each(|collection| {
            collection
                .lead()
                .and_then(|()| collection.delete_rows_of_dropped_partitions())
                .and_then(|()| collection.load_graphs())
                .map_err(|error| self.of_collection(collection, error))
        });
        if led.is_err() {
            leadership.set(LogStanding::Follows);
            for collection in &collections {
                // One that fails is opened again when it is needed.
                let _ = collection.follow();
            }
        }
        led
    }

    /// From now on changes are taken from the shared log, and none are made here. Those under way end
    /// first: by their errors nobody knows whether they are in the shared log, and they come from there
    /// if they are.
    ///
    /// # Errors
    /// Where the disk of a collection has failed: the database is to be opened again. The others follow
    /// all the same.
    pub fn follow(&self) -> Result<(), DatabaseError> {
        let Some(leadership) = self.leadership() else { return Ok(()) };
        leadership.set(LogStanding::Follows);
        // Whoever changes the catalogue is told that this server does not lead.
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Ok(());
        for collection in self.all_collections() {
            // One that still led would take what comes from the shared log for its own.
            let followed = collection.follow();
            all = all.and(followed.map_err(|error| self.of_collection(&collection, error)));
        }
        all
    }

    /// The name of a collection that takes nothing more until the database is opened again, and why: its
    /// disk has failed, or what stands in its log could not be applied. `None` where all is well, and
    /// where the shared log takes no more of this server, which ends with [`follow`](Self::follow). Meant
    /// to be asked often.
    pub fn stopped(&self) -> Option<String> {
        self.leadership()?.stops().find(|| {
            let collections = self.collections.read().unwrap_or_else(PoisonError::into_inner);
            collections.values().find_map(|collection| {
                let why = collection.needs_opening()?;
                // One that is just being dropped has stopped for that.
                let entry = collection.entry().ok()?;
                Some(format!("collection `{}`: {why}", entry.name))
            })
        })
    }

    /// Puts on stable storage all changes that were in the shared log before the call, also those that
    /// this server has put there and is about to make: a start needs the shared log from there on only.
    ///
    /// # Errors
    /// A collection whose log cannot be synced, or that cannot be opened; changes that a disk did not
    /// take, and still does not.
    pub fn sync_applied(&self) -> Result<(), DatabaseError> {
        self.catalog.settle()?;
        self.access.settle()?;
        if !self.missing().is_empty() {
            // One that is just being created is there when that has ended.
            let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
            self.open_missing()?;
        }
        self.all_collections().iter().try_for_each(|collection| {
            collection.sync_log().map_err(|error| self.of_collection(collection, error))
        })
    }

    /// The collection of this id.
    pub fn collection_by_id(&self, id: CollectionId) -> Option<Arc<Collection>> {
        self.collections.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// All collections, as they are now.
    pub fn all_collections(&self) -> Vec<Arc<Collection>> {
        let collections = self.collections.read().unwrap_or_else(PoisonError::into_inner);
        collections.values().cloned().collect()
    }

    /// The collection of this id; `None` where the catalogue has none.
    fn named_collection(&self, id: CollectionId) -> Result<Option<Arc<Collection>>, DatabaseError> {
        let open = self.collection_by_id(id);
        if open.is_some() || self.catalog.snapshot().collection_by_id(id).is_none() {
            return Ok(open);
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.open_missing()?;
        Ok(self.collection_by_id(id))
    }

    /// Collections that the catalogue has and that are not open.
    fn missing(&self) -> Vec<Arc<CollectionEntry>> {
        // The catalogue second, since it forgets a collection first.
        let open = self.collections.read().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.catalog.snapshot();
        snapshot.all_collections().filter(|entry| !open.contains_key(&entry.id)).cloned().collect()
    }

    /// Opens those that are missing, under `changing`.
    fn open_missing(&self) -> Result<(), DatabaseError> {
        for entry in self.missing() {
            let settings = self.options.collection.clone();
            let opened = collection::open(&self.home, Arc::clone(&self.catalog), &entry, settings);
            let opened = opened.map_err(DatabaseError::of(&entry.name))?;
            self.write_collections().insert(entry.id, opened);
        }
        Ok(())
    }

    fn of_collection(
        &self,
        collection: &Collection,
        error: collection::CollectionError,
    ) -> DatabaseError {
        let name = collection.entry().map_or_else(|_| String::new(), |entry| entry.name.clone());
        DatabaseError::of(&name)(error)
    }

    /// Does what leads to another state of the catalogue, under `changing`.
    fn follow_catalog(&self, state: Snapshot) -> Result<(), DatabaseError> {
        let before = self.catalog.snapshot();
        let was: BTreeMap<_, _> = before.all_collections().map(|c| (c.id, Arc::clone(c))).collect();
        let new: Vec<_> = state.all_collections().filter(|c| !was.contains_key(&c.id)).collect();
        for entry in &new {
            let identity = CollectionIdentity { id: entry.id, created: entry.created };
            // What an attempt before may have left.
            remove_tree(&*self.home.disk, &collection_dir(entry.id))?;
            let made = collection::create(&self.home, identity, &self.options.collection);
            made.map_err(DatabaseError::of(&entry.name))?;
        }
        self.catalog.follow(state)?;
        let after = self.catalog.snapshot();
        for (id, was) in &was {
            match after.collection_by_id(*id) {
                None => self.forget(*id),
                Some(is) if !Arc::ptr_eq(was, is) => self.follow_entry(was, is)?,
                Some(_) => {}
            }
        }
        self.open_missing()
    }

    /// A collection that the catalogue has no more goes with its directory.
    pub(super) fn forget(&self, id: CollectionId) {
        // Its work may take long to end, and others look up their collections meanwhile.
        let gone = self.write_collections().remove(&id);
        if let Some(collection) = gone {
            collection.stop("the collection was dropped");
            collection.stop_background();
        }
        self.remove_dir(id);
    }

    /// What follows for a collection from what the catalogue says of it now.
    fn follow_entry(
        &self,
        was: &CollectionEntry,
        is: &CollectionEntry,
    ) -> Result<(), DatabaseError> {
        // One that is missing will be opened as the catalogue is now.
        let Some(collection) = self.collection_by_id(is.id) else { return Ok(()) };
        for index in was.indexes.iter().filter(|i| !is.indexes.iter().any(|now| now.id == i.id)) {
            collection.drop_graph(index.id, index.field);
        }
        let building = |entry: &CollectionEntry| {
            entry.indexes.iter().any(|i| matches!(i.state, IndexState::Building { .. }))
        };
        match (&was.load, &is.load) {
            (WantedLoad::Released, WantedLoad::Released) => {}
            (_, WantedLoad::Released) => collection.release_graphs(),
            (was, now) if was != now || building(is) => {
                collection.load_graphs().map_err(DatabaseError::of(&is.name))?;
            }
            _ => {}
        }
        Ok(())
    }
}
