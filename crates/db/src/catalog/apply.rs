//! The catalogue, open: changes one after the other, readers beside them.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::change::{Applied, Change, Subject};
use super::entries::UnixMs;
use super::error::CatalogError;
use super::file::{decode, encode};
use super::snapshot::Snapshot;
use super::store::{CatalogStore, ReplaceError};

/// The store, and whether it still can be trusted.
struct Writer {
    store: Box<dyn CatalogStore>,
    poisoned: bool,
}

/// See the module's description. Shared between threads by reference. Lock order: the writer,
/// then the current snapshot, which is held for an assignment only.
pub struct Catalog {
    writer: Mutex<Writer>,
    current: RwLock<Arc<Snapshot>>,
}

/// The outcome of an edit of the draft.
pub(super) struct Edit {
    pub(super) changed: bool,
    pub(super) subject: Subject,
}

impl Edit {
    pub(super) fn made(subject: Subject) -> Self {
        Self { changed: true, subject }
    }

    pub(super) fn made_already(subject: Subject) -> Self {
        Self { changed: false, subject }
    }
}

impl Catalog {
    /// Creates the catalogue of a new place, with the default database, and saves it.
    ///
    /// # Errors
    /// [`CatalogError::AlreadyThere`] where there is one; it is left as it is.
    pub fn create(mut store: Box<dyn CatalogStore>, now: UnixMs) -> Result<Self, CatalogError> {
        if store.load().map_err(CatalogError::Unreadable)?.is_some() {
            return Err(CatalogError::AlreadyThere);
        }
        let snapshot = Snapshot::initial(now);
        store.replace(&encode(&snapshot)).map_err(|error| match error {
            ReplaceError::Unchanged(source) => CatalogError::NotSaved(source),
            ReplaceError::Unknown(source) => CatalogError::Unknown(source),
        })?;
        Ok(Self::new(store, snapshot))
    }

    /// Opens the catalogue that was saved. A missing one is an error, so that a lost file is
    /// never taken for a place without collections.
    ///
    /// # Errors
    /// [`CatalogError::Missing`], [`CatalogError::Unreadable`], or [`CatalogError::File`] where
    /// the bytes are cut off, damaged, of another version, or contradict themselves.
    pub fn open(mut store: Box<dyn CatalogStore>) -> Result<Self, CatalogError> {
        let bytes = store.load().map_err(CatalogError::Unreadable)?;
        let snapshot = decode(&bytes.ok_or(CatalogError::Missing)?)?;
        Ok(Self::new(store, snapshot))
    }

    fn new(store: Box<dyn CatalogStore>, snapshot: Snapshot) -> Self {
        Self {
            writer: Mutex::new(Writer { store, poisoned: false }),
            current: RwLock::new(Arc::new(snapshot)),
        }
    }

    /// What was saved last. It does not change; ask again to see later changes.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        // A reader cannot panic while it holds the lock, and the writer only assigns.
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a change: checked against the latest state, saved, then shown to readers. `now` is
    /// the time of whatever is created or changed; a clock that went backwards does no harm.
    ///
    /// # Errors
    /// [`CatalogError`]; the catalogue is then as it was. Only after
    /// [`CatalogError::Unknown`] the file may hold the change or not, readers see the state
    /// without it, and every later change is [`CatalogError::Poisoned`].
    pub fn apply(&self, change: Change, now: UnixMs) -> Result<Applied, CatalogError> {
        // A panic inside an edit leaves only a draft behind.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.poisoned {
            return Err(CatalogError::Poisoned);
        }
        let before = self.snapshot();
        let mut draft = Snapshot::clone(&before);
        let Edit { changed, subject } = draft.edit(change, now)?;
        if !changed {
            return Ok(Applied { changed, revision: before.revision, subject });
        }
        draft.revision += 1;
        debug_assert_eq!(super::validate::validate(&draft), Ok(()), "an edit keeps the rules");
        writer.store.replace(&encode(&draft)).map_err(|error| match error {
            ReplaceError::Unchanged(source) => CatalogError::NotSaved(source),
            ReplaceError::Unknown(source) => {
                writer.poisoned = true;
                CatalogError::Unknown(source)
            }
        })?;
        let revision = draft.revision;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(draft);
        Ok(Applied { changed, revision, subject })
    }
}
