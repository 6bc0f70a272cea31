//! Changes of the catalogue that are more than that: collections come and go with their
//! directories, and the rows of a partition with the partition.

use std::sync::{Arc, PoisonError};

use super::{Database, DatabaseError};
use crate::catalog::{
    Applied, CatalogError, CollectionId, CollectionPath, EntryChange, NewCollection, Subject,
    WantedLoad,
};
use crate::collection::{self, Collection, CollectionIdentity, collection_dir};
use crate::disk::remove_tree;

impl Database {
    /// Makes a change. Afterwards it is durable, and all of its consequences are visible.
    ///
    /// # Errors
    /// [`DatabaseError::ReadOnly`]. [`DatabaseError::Catalog`]: nothing has changed, but for a save
    /// of which nobody knows how it ended. [`DatabaseError::Collection`] where the rows of a dropped
    /// partition could not be deleted: the partition is gone, and its rows go with the next opening.
    pub fn apply(&self, change: EntryChange) -> Result<Applied, DatabaseError> {
        self.check_writable()?;
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        match change {
            EntryChange::CreateCollection { place, new } => self.create(place, new),
            EntryChange::DropCollection { .. } => self.drop_collection_of(change),
            EntryChange::DropPartition { ref place, .. } => {
                let collection = self.collection(&place.database, &place.collection)?;
                let name = place.collection.clone();
                let applied =
                    collection.without_writers(|| self.catalog.apply(change, (self.options.now)()));
                let applied = applied.map_err(DatabaseError::of(&name))??;
                let deleted = collection.delete_rows_of_dropped_partitions();
                deleted.map_err(DatabaseError::of(&name))?;
                Ok(applied)
            }
            EntryChange::DropIndex { ref place, ref index } => {
                let collection = self.collection(&place.database, &place.collection)?;
                let name = place.collection.clone();
                let entry = collection.entry().map_err(DatabaseError::of(&name))?;
                let field = entry.index(index)?.field;
                let applied = self.catalog.apply(change, (self.options.now)())?;
                if let Subject::Index(_, index) = applied.subject {
                    collection.drop_graph(index, field);
                }
                Ok(applied)
            }
            EntryChange::Load { ref place, .. } | EntryChange::Release { ref place, .. } => {
                let place = place.clone();
                self.load_or_release(place, change)
            }
            change => Ok(self.catalog.apply(change, (self.options.now)())?),
        }
    }

    fn load_or_release(
        &self,
        place: CollectionPath,
        change: EntryChange,
    ) -> Result<Applied, DatabaseError> {
        let collection = self.collection(&place.database, &place.collection)?;
        let named = DatabaseError::of(&place.collection);
        let was = collection.entry().map_err(&named)?.load.clone();
        let applied = self.catalog.apply(change, (self.options.now)())?;
        let is = collection.entry().map_err(&named)?.load.clone();
        if is == WantedLoad::Released {
            collection.release_graphs();
            return Ok(applied);
        }
        let Err(error) = collection.load_graphs() else { return Ok(applied) };
        if was == WantedLoad::Released {
            // What does not fit now would not at the next start, and nobody could release it then.
            let release = EntryChange::Release { place: place.clone(), partitions: None };
            if let Err(kept) = self.catalog.apply(release, (self.options.now)()) {
                tracing::warn!(collection = place.collection, "a load is not taken back: {kept}");
            }
            collection.release_graphs();
        }
        Err(named(error))
    }

    fn create(
        &self,
        place: CollectionPath,
        new: Box<NewCollection>,
    ) -> Result<Applied, DatabaseError> {
        let now = (self.options.now)();
        let snapshot = self.catalog.snapshot();
        let taken = snapshot.collection(&place.database, &place.collection).is_ok();
        let change = EntryChange::CreateCollection { place: place.clone(), new };
        if taken {
            // Either the same collection, or an error.
            return Ok(self.catalog.apply(change, now)?);
        }
        let id = CollectionId(snapshot.next_id());
        let named = DatabaseError::of(&place.collection);
        let identity = CollectionIdentity { id, created: now };
        // Until it is open: others may show it as soon as the log that they share names it.
        let _under_way = self.leadership().map(|leadership| leadership.under_way().begin());
        // What a failed attempt may have left under this id.
        let dir = collection_dir(id);
        remove_tree(&*self.home.disk, &dir)?;
        let made = collection::create(&self.home, identity, &self.options.collection);
        let applied = made.map_err(&named).and_then(|()| Ok(self.catalog.apply(change, now)?));
        let applied = match applied {
            Ok(applied) => applied,
            // The catalogue on disk may name the directory.
            Err(error @ DatabaseError::Catalog(CatalogError::Unknown(_))) => return Err(error),
            Err(error) => {
                self.remove_dir(id);
                return Err(error);
            }
        };
        assert_eq!(applied.subject, Subject::Collection(id), "no change came between");
        let snapshot = self.catalog.snapshot();
        let entry = snapshot.collection_by_id(id).expect("it was created under `changing`");
        let settings = self.options.collection.clone();
        let opened = collection::open(&self.home, Arc::clone(&self.catalog), entry, settings);
        let opened: Arc<Collection> = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // It holds nothing yet, so it can go again.
                self.catalog.apply(EntryChange::DropCollection { place: place.clone() }, now)?;
                self.remove_dir(id);
                return Err(named(error));
            }
        };
        self.write_collections().insert(id, opened);
        Ok(applied)
    }

    fn drop_collection_of(&self, change: EntryChange) -> Result<Applied, DatabaseError> {
        let applied = self.catalog.apply(change, (self.options.now)())?;
        let Subject::Collection(id) = applied.subject else {
            unreachable!("a collection was dropped")
        };
        self.forget(id);
        Ok(applied)
    }

    /// Removes the directory of a collection that the catalogue does not name; what cannot be
    /// removed now goes with the next opening.
    pub(super) fn remove_dir(&self, id: CollectionId) {
        if let Err(error) = remove_tree(&*self.home.disk, &collection_dir(id)) {
            tracing::warn!("cannot remove a collection's directory: {error}");
        }
    }
}
