//! Where the catalogue's file is kept.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why the file was not replaced, or not added to.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The old file stands, certainly: the new one never took its place, or only a part of what
    /// was to be added was.
    #[error("the old file stands: {0}")]
    Unchanged(#[source] io::Error),
    /// Either may stand after a crash: the rename or a sync failed.
    #[error("either file may stand: {0}")]
    Unknown(#[source] io::Error),
}

/// Keeps one file.
pub trait CatalogStore: Send {
    /// The file, whole; `None` where none was ever written.
    ///
    /// # Errors
    /// What the system said.
    fn load(&mut self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces the file by `bytes`, so that at every instant, and after a crash, the old or the
    /// new one is there, whole. When it returns, the new one is on stable storage: written beside
    /// the old one, synced, renamed, and the directory synced.
    ///
    /// # Errors
    /// [`SaveError`], which tells whether the old file stands.
    fn replace(&mut self, bytes: &[u8]) -> Result<(), SaveError>;

    /// Adds `bytes` to the file that the last [`replace`](Self::replace) of this store made. When
    /// it returns, they are on stable storage.
    ///
    /// # Errors
    /// [`SaveError`], which tells whether all of `bytes` may be there; a part of them may be in
    /// either case, so that only a replacement may follow.
    fn append(&mut self, bytes: &[u8]) -> Result<(), SaveError>;

    /// As [`append`](Self::append), but for stable storage: a power cut may take it before the
    /// next of either.
    ///
    /// # Errors
    /// What the system said. A part of `bytes` may be there, so that only a replacement may follow.
    fn note(&mut self, bytes: &[u8]) -> io::Result<()>;
}

#[derive(Debug, Default)]
struct StoreMemory {
    file: Option<Vec<u8>>,
    fail_next: Option<SaveError>,
    replaced: u64,
    appended: u64,
}

/// A file in memory, for tests. Clones share it, as two openings of one directory do.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<StoreMemory>>,
}

impl MemoryStore {
    /// A store that holds `file`.
    pub fn holding(file: Vec<u8>) -> Self {
        let store = Self::default();
        store.memory().file = Some(file);
        store
    }

    /// What it holds.
    pub fn file(&self) -> Option<Vec<u8>> {
        self.memory().file.clone()
    }

    /// How often the file was replaced.
    pub fn replaced(&self) -> u64 {
        self.memory().replaced
    }

    /// How often something was added to the file, marks aside.
    pub fn appended(&self) -> u64 {
        self.memory().appended
    }

    /// Makes the next replacement or addition fail. After [`SaveError::Unknown`] the new file stands;
    /// after [`SaveError::Unchanged`] half of an addition does.
    pub fn fail_next(&self, error: SaveError) {
        self.memory().fail_next = Some(error);
    }

    /// Takes back a failure that was not met.
    pub fn succeed_next(&self) {
        self.memory().fail_next = None;
    }

    fn memory(&self) -> MutexGuard<'_, StoreMemory> {
        // Each change of the memory is one assignment, so a panic elsewhere leaves it whole.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CatalogStore for MemoryStore {
    fn load(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.file())
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        let mut memory = self.memory();
        let failure = memory.fail_next.take();
        if !matches!(failure, Some(SaveError::Unchanged(_))) {
            memory.file = Some(bytes.to_vec());
            memory.replaced += 1;
        }
        failure.map_or(Ok(()), Err)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        let mut memory = self.memory();
        let failure = memory.fail_next.take();
        let whole = !matches!(failure, Some(SaveError::Unchanged(_)));
        let file = memory.file.as_mut().expect("a file was made before it is added to");
        file.extend(if whole { bytes } else { &bytes[..bytes.len() / 2] });
        memory.appended += u64::from(whole);
        failure.map_or(Ok(()), Err)
    }

    fn note(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.memory().file.as_mut().expect("a file was made before it is added to").extend(bytes);
        Ok(())
    }
}
