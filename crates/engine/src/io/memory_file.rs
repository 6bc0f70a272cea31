//! The content of a file in memory, for the memory backend and the simulation.
//!
//! A journaled file keeps apart what is written and what is durable: changes since the last
//! sync stand in a list, and a power loss keeps, drops or tears each of them.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A file in memory. Clones share it.
#[derive(Clone)]
pub(super) struct MemoryFile {
    content: Arc<RwLock<Content>>,
}

struct Content {
    written: Vec<u8>,
    journal: Option<Journal>,
}

/// What a power loss goes back to, and the changes since.
struct Journal {
    durable: Vec<u8>,
    changes: Vec<Change>,
}

/// One change of a file that no sync covers yet.
#[derive(Clone)]
pub(super) enum Change {
    /// Bytes written at an offset.
    Write(usize, Vec<u8>),
    /// A new length.
    Grow(usize),
}

impl Change {
    /// Makes the change to `bytes`.
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        let end = match self {
            Self::Write(offset, data) => offset + data.len(),
            Self::Grow(end) => *end,
        };
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        if let Self::Write(offset, data) = self {
            bytes[*offset..end].copy_from_slice(data);
        }
    }
}

impl MemoryFile {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self::with(Content { written: bytes, journal: None })
    }

    pub(super) fn journaled(bytes: Vec<u8>) -> Self {
        let journal = Journal { durable: bytes.clone(), changes: Vec::new() };
        Self::with(Content { written: bytes, journal: Some(journal) })
    }

    fn with(content: Content) -> Self {
        Self { content: Arc::new(RwLock::new(content)) }
    }

    fn look(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.look().written.len() as u64
    }

    /// Copies what there is at `offset` to `out`; returns how much that was.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        let content = self.look();
        let written = &content.written;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(written.len());
        let got = out.len().min(written.len() - start);
        out[..got].copy_from_slice(&written[start..start + got]);
        got
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) {
        let mut content = self.change();
        let start = usize::try_from(offset).expect("memory holds the offset");
        let end = start + data.len();
        if let Some(journal) = &mut content.journal {
            journal.changes.push(Change::Write(start, data.to_vec()));
        }
        if content.written.len() < end {
            content.written.resize(end, 0);
        }
        content.written[start..end].copy_from_slice(data);
    }

    /// Makes it at least so long; returns false where memory does not suffice.
    pub(super) fn grow(&self, bytes: u64) -> bool {
        let mut content = self.change();
        let Ok(bytes) = usize::try_from(bytes) else { return false };
        let more = bytes.saturating_sub(content.written.len());
        if content.written.try_reserve(more).is_err() {
            return false;
        }
        if more > 0 {
            content.written.resize(bytes, 0);
            if let Some(journal) = &mut content.journal {
                journal.changes.push(Change::Grow(bytes));
            }
        }
        true
    }

    /// Makes what is written durable.
    pub(super) fn sync(&self) {
        if let Some(Journal { durable, changes }) = &mut self.change().journal {
            for change in changes.drain(..) {
                change.apply(durable);
            }
        }
    }

    /// What is durable, and what a power loss may or may not keep, in order.
    pub(super) fn durable(&self) -> (Vec<u8>, Vec<Change>) {
        let content = self.look();
        match &content.journal {
            Some(journal) => (journal.durable.clone(), journal.changes.clone()),
            None => (content.written.clone(), Vec::new()),
        }
    }
}
