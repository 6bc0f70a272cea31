//! Where the catalogue's file is kept.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why the file was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The old file stands, certainly: the new one never took its place.
    #[error("the old file stands: {0}")]
    Unchanged(#[source] io::Error),
    /// Either may stand after a crash: the rename or a sync after it failed.
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
    /// [`ReplaceError`], which tells whether the old file stands.
    fn replace(&mut self, bytes: &[u8]) -> Result<(), ReplaceError>;
}

#[derive(Debug, Default)]
struct Memory {
    file: Option<Vec<u8>>,
    fail_next: Option<ReplaceError>,
    replaced: u64,
}

/// A file in memory, for tests. Clones share it, as two openings of one directory do.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<Memory>>,
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

    /// Makes the next replacement fail. After [`ReplaceError::Unknown`] the new file stands.
    pub fn fail_next(&self, error: ReplaceError) {
        self.memory().fail_next = Some(error);
    }

    /// Takes back a failure that was not met.
    pub fn succeed_next(&self) {
        self.memory().fail_next = None;
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Each change of the memory is one assignment, so a panic elsewhere leaves it whole.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CatalogStore for MemoryStore {
    fn load(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.file())
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), ReplaceError> {
        let mut memory = self.memory();
        let failure = memory.fail_next.take();
        if !matches!(failure, Some(ReplaceError::Unchanged(_))) {
            memory.file = Some(bytes.to_vec());
            memory.replaced += 1;
        }
        failure.map_or(Ok(()), Err)
    }
}
