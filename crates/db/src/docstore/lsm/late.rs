//! Batches that are visible, and not in the trees yet.
//!
//! After a crash the log is applied before anybody asks for anything, and the trees' skip lists are
//! the dearest part of that. So such batches wait here, and whoever needs the trees writes
//! them first; only rows asked for by id are found here as well.
//!
//! Invariants:
//! - batches leave in the order in which they came, and are in the trees before they leave;
//! - each puts only rows that are new, with larger ids than those of all before it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::batch::TreeBatch;
use crate::ids::RowId;

/// See the module's description.
#[derive(Default)]
pub(super) struct Late {
    /// How many batches wait.
    waiting: AtomicUsize,
    queue: RwLock<LateQueue>,
}

#[derive(Default)]
struct LateQueue {
    /// Each with a row id that is above those of all rows before it, and not above its own.
    batches: VecDeque<(RowId, Arc<TreeBatch>)>,
    /// Rows that waiting batches delete, and the numbers of these batches.
    gone: HashMap<RowId, u64>,
}

/// What is known here of a row.
pub(super) enum LateRow {
    /// A batch that puts it.
    Put(Arc<TreeBatch>),
    /// It was deleted.
    Gone,
    /// The trees know.
    Elsewhere,
}

impl Late {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Lets a batch wait, whose rows begin at `from` or later. It is to be shown afterwards.
    pub(super) fn push(&self, from: RowId, batch: TreeBatch) {
        let mut queue = self.queue.write().unwrap_or_else(PoisonError::into_inner);
        queue.gone.extend(batch.gone().iter().map(|row| (*row, batch.number)));
        queue.batches.push_back((from, Arc::new(batch)));
        self.waiting.store(queue.batches.len(), Ordering::Release);
    }

    /// The batch that came first.
    pub(super) fn first(&self) -> Option<Arc<TreeBatch>> {
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        queue.batches.front().map(|(_, batch)| Arc::clone(batch))
    }

    /// The batch that came first is in the trees.
    pub(super) fn pop(&self) {
        let mut queue = self.queue.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, batch)) = queue.batches.pop_front() {
            for row in batch.gone() {
                queue.gone.remove(row);
            }
        }
        self.waiting.store(queue.batches.len(), Ordering::Release);
    }

    /// What a view as of this batch number sees of a row. Where that is elsewhere, the trees have
    /// to be looked at afterwards.
    pub(super) fn find(&self, row: RowId, as_of: u64) -> LateRow {
        if self.is_empty() {
            return LateRow::Elsewhere;
        }
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        if queue.gone.get(&row).is_some_and(|number| *number < as_of) {
            return LateRow::Gone;
        }
        let behind = queue.batches.partition_point(|(from, _)| *from <= row);
        match behind.checked_sub(1).map(|at| &queue.batches[at].1) {
            Some(batch) if batch.number < as_of && batch.value(row).is_some() => {
                LateRow::Put(Arc::clone(batch))
            }
            _ => LateRow::Elsewhere,
        }
    }
}
