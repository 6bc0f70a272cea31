//! A shared log in memory, for tests and simulations: clones are the same log, and whoever leads
//! last is the only one who can append.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{AppliedRequest, SharedChange, SharedLog, SharedLogError};
use crate::ids::Seq;

/// A change that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeptChange {
    Catalog { revision: u64, delta: Vec<u8> },
    Access { file: Vec<u8> },
    Record { collection: u64, seq: Seq, kind: u16, payload: Vec<u8> },
    Request(AppliedRequest),
}

impl KeptChange {
    fn of(change: &SharedChange<'_>) -> Self {
        match *change {
            SharedChange::Catalog { revision, delta } => {
                Self::Catalog { revision, delta: delta.to_vec() }
            }
            SharedChange::Access { file } => Self::Access { file: file.to_vec() },
            SharedChange::Record { collection, seq, kind, payload } => {
                Self::Record { collection, seq, kind, payload: payload.to_vec() }
            }
            SharedChange::Request(request) => Self::Request(request),
        }
    }

    fn as_change(&self) -> SharedChange<'_> {
        match self {
            Self::Catalog { revision, delta } => {
                SharedChange::Catalog { revision: *revision, delta }
            }
            Self::Access { file } => SharedChange::Access { file },
            Self::Record { collection, seq, kind, payload } => {
                SharedChange::Record { collection: *collection, seq: *seq, kind: *kind, payload }
            }
            Self::Request(request) => SharedChange::Request(*request),
        }
    }
}

#[derive(Debug, Default)]
struct LogMemory {
    term: u64,
    changes: Vec<KeptChange>,
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog {
    shared: Arc<Mutex<LogMemory>>,
}

/// What one leader appends by.
#[derive(Debug)]
struct MemoryTerm {
    log: MemoryLog,
    term: u64,
    lose_next: Arc<AtomicBool>,
}

impl MemoryLog {
    fn memory(&self) -> MutexGuard<'_, LogMemory> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a term: nobody who led before can append from now on. Setting the switch makes the
    /// next append end as one of which nobody knows whether it got there; it does.
    pub fn lead(&self) -> (Arc<dyn SharedLog>, Arc<AtomicBool>) {
        let lose_next = Arc::new(AtomicBool::new(false));
        let mut memory = self.memory();
        memory.term += 1;
        let term =
            MemoryTerm { log: self.clone(), term: memory.term, lose_next: Arc::clone(&lose_next) };
        (Arc::new(term), lose_next)
    }

    /// Changes so far.
    pub fn len(&self) -> usize {
        self.memory().changes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands over the changes from a position on, and returns the position behind the last.
    ///
    /// # Errors
    /// What `apply` says.
    pub fn read<E>(
        &self,
        from: usize,
        mut apply: impl FnMut(&SharedChange<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let changes = self.memory().changes[from..].to_vec();
        for change in &changes {
            apply(&change.as_change())?;
        }
        Ok(from + changes.len())
    }
}

impl SharedLog for MemoryTerm {
    fn append(&self, changes: &[SharedChange<'_>]) -> Result<(), SharedLogError> {
        let mut memory = self.log.memory();
        if memory.term != self.term {
            let why = format!("term {} has begun", memory.term);
            return Err(SharedLogError::NotLeading { why });
        }
        memory.changes.extend(changes.iter().map(KeptChange::of));
        if self.lose_next.swap(false, Ordering::Relaxed) {
            return Err(SharedLogError::Unknown { why: "no answer came".into() });
        }
        Ok(())
    }
}
