//! The catalogue, open: changes one after the other, readers beside them.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::change::{Applied, EntryChange, Subject};
use super::delta::Delta;
use super::entries::UnixMs;
use super::error::CatalogError;
use super::file::{Decoded, decode, encode};
use super::limits::MAX_ENTRY_BYTES;
use super::snapshot::Snapshot;
use super::store::{CatalogStore, SaveError};
use super::tail::FileTail;
use crate::replication::{Leadership, SharedChange, SharedLogError};

/// The store, and whether it still can be trusted.
struct StoreWriter {
    store: Box<dyn CatalogStore>,
    /// Behind what the next change is written; `None` where nothing may be added to the file, so
    /// that the next change replaces it.
    tail: Option<FileTail>,
    poisoned: bool,
    /// The file lacks changes that the log of several servers has.
    behind: bool,
}

impl StoreWriter {
    /// Replaces the file by one of this state.
    fn replace(&mut self, state: &Snapshot) -> Result<(), SaveError> {
        self.tail = None;
        let (bytes, tail) = encode(state);
        self.store.replace(&bytes)?;
        self.tail = Some(tail);
        Ok(())
    }

    /// Puts a state on stable storage that comes behind the one that is there.
    fn save(&mut self, before: &Snapshot, after: &Snapshot) -> Result<(), SaveError> {
        let Some(mut tail) = self.tail.take().filter(|tail| !tail.is_long()) else {
            return self.replace(after);
        };
        match self.store.append(&tail.change(&Delta::between(before, after))) {
            // Where the mark is not whole, nothing can follow it.
            Ok(()) => self.tail = self.store.note(&tail.mark()).ok().map(|()| tail),
            Err(SaveError::Unchanged(source)) => return Err(SaveError::Unchanged(source)),
            // A file without the change takes the place of the one that may have it.
            Err(SaveError::Unknown(source)) => {
                return Err(match self.replace(before) {
                    Ok(()) => SaveError::Unchanged(source),
                    Err(_) => SaveError::Unknown(source),
                });
            }
        }
        Ok(())
    }
}

/// Refuses a change that makes an entry longer than entries may be. One that is longer already, of an earlier
/// version, may become shorter, and may be dropped.
fn check_length(before: &Snapshot, after: &Snapshot) -> Result<(), CatalogError> {
    let bytes = Delta::between(before, after).to_bytes().len();
    if bytes > MAX_ENTRY_BYTES && bytes > Delta::between(after, before).to_bytes().len() {
        return Err(CatalogError::Long { bytes });
    }
    Ok(())
}

/// See the module's description. Shared between threads by reference. Lock order: the writer,
/// then the current snapshot, which is held for an assignment only.
pub struct Catalog {
    writer: Mutex<StoreWriter>,
    current: RwLock<Arc<Snapshot>>,
    /// Where several servers have it.
    shared: Option<Arc<Leadership>>,
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
        let mut writer = StoreWriter { store, tail: None, poisoned: false, behind: false };
        writer.replace(&snapshot).map_err(refusal)?;
        Ok(Self::new(writer, snapshot))
    }

    /// Opens the catalogue that was saved. A missing one is an error, so that a lost file is
    /// never taken for a place without collections.
    ///
    /// # Errors
    /// [`CatalogError::Missing`], [`CatalogError::Unreadable`], or [`CatalogError::File`] where
    /// the bytes are cut off, damaged, of another version, or contradict themselves;
    /// [`CatalogError::NotSaved`] or [`CatalogError::Unknown`] where the last change might not be on
    /// stable storage, and cannot be put there.
    pub fn open(mut store: Box<dyn CatalogStore>) -> Result<Self, CatalogError> {
        let bytes = store.load().map_err(CatalogError::Unreadable)?;
        let Decoded { snapshot, followed, unvouched } =
            decode(&bytes.ok_or(CatalogError::Missing)?)?;
        let mut writer = StoreWriter { store, tail: None, poisoned: false, behind: false };
        if followed {
            match writer.replace(&snapshot) {
                Ok(()) => {}
                Err(SaveError::Unchanged(error)) if !unvouched => {
                    tracing::debug!("changes stay behind the catalogue: {error}");
                }
                // What is done because of the last change may not outlive it.
                Err(error) => return Err(refusal(error)),
            }
        }
        Ok(Self::new(writer, snapshot))
    }

    fn new(writer: StoreWriter, snapshot: Snapshot) -> Self {
        let current = RwLock::new(Arc::new(snapshot));
        Self { writer: Mutex::new(writer), current, shared: None }
    }

    /// The same, of a database that several servers have: a change stands in the log that they share
    /// before it is saved.
    #[must_use]
    pub fn shared_by(mut self, leadership: Arc<Leadership>) -> Self {
        self.shared = Some(leadership);
        self
    }

    /// Leaves no changes behind the catalogue in its file, so that one that is cut off afterwards is
    /// told by its length. Where that fails nothing is lost.
    pub fn close(&self) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.poisoned || writer.tail.is_none_or(|tail| tail.bytes == 0) {
            return;
        }
        if let Err(error) = writer.replace(&self.snapshot()) {
            writer.poisoned = matches!(error, SaveError::Unknown(_));
            tracing::debug!("changes stay behind the catalogue: {error}");
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
    pub fn apply(&self, change: EntryChange, now: UnixMs) -> Result<Applied, CatalogError> {
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
        check_length(&before, &draft)?;
        debug_assert_eq!(super::validate::validate(&draft), Ok(()), "an edit keeps the rules");
        let shared = self.shared.as_ref().map(|leadership| {
            let delta = Delta::between(&before, &draft).to_bytes();
            let change = SharedChange::Catalog { revision: draft.revision, delta: &delta };
            leadership.change(change)
        });
        let _under_way = shared.transpose()?;
        self.save(&mut writer, &before, &draft)?;
        let revision = draft.revision;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(draft);
        Ok(Applied { changed, revision, subject })
    }

    /// Puts a change on stable storage. One that the shared log has cannot be taken back, and the next
    /// one builds on it: where the file does not take it, it is shown all the same and saved later.
    fn save(
        &self,
        writer: &mut StoreWriter,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<(), CatalogError> {
        match writer.save(before, after) {
            Ok(()) => writer.behind = false,
            Err(error) if self.shared.is_some() => {
                tracing::warn!("a change of the catalogue stands in the shared log alone: {error}");
                (writer.tail, writer.behind) = (None, true);
            }
            Err(error) => {
                writer.poisoned = matches!(error, SaveError::Unknown(_));
                return Err(refusal(error));
            }
        }
        Ok(())
    }

    /// Waits for a change that is under way, and saves those that stand in the shared log alone.
    ///
    /// # Errors
    /// [`CatalogError::NotSaved`] or [`CatalogError::Unknown`] where the file still does not take them.
    pub fn settle(&self) -> Result<(), CatalogError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.behind {
            writer.replace(&self.snapshot()).map_err(refusal)?;
            writer.behind = false;
        }
        Ok(())
    }

    /// What a change from the shared log leads to; `None` where it is included already.
    ///
    /// # Errors
    /// [`SharedLogError`]: changes before it are missing, or it is damaged.
    pub fn foresee(&self, revision: u64, delta: &[u8]) -> Result<Option<Snapshot>, SharedLogError> {
        let of = || "the catalogue".to_owned();
        let damaged = |why: String| SharedLogError::Damaged { of: of(), why };
        let before = self.snapshot();
        if revision <= before.revision {
            return Ok(None);
        }
        let expected = before.revision + 1;
        if revision != expected {
            return Err(SharedLogError::Gap { of: of(), expected, found: revision });
        }
        let mut draft = Snapshot::clone(&before);
        let delta = Delta::from_bytes(delta).map_err(damaged)?;
        delta.apply(&mut draft).map_err(damaged)?;
        super::validate::validate(&draft).map_err(damaged)?;
        Ok(Some(draft))
    }

    /// Saves the state to which a change from the shared log leads, and shows it to readers. Where the
    /// same change was made here meanwhile, by a call from when this server led, it changes nothing;
    /// nobody makes another one.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn follow(&self, state: Snapshot) -> Result<(), CatalogError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.poisoned {
            return Err(CatalogError::Poisoned);
        }
        let before = self.snapshot();
        if state.revision <= before.revision {
            // Twice in the file it would make that unreadable.
            return Ok(());
        }
        self.save(&mut writer, &before, &state)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
        Ok(())
    }
}

fn refusal(error: SaveError) -> CatalogError {
    match error {
        SaveError::Unchanged(source) => CatalogError::NotSaved(source),
        SaveError::Unknown(source) => CatalogError::Unknown(source),
    }
}
