//! What readers see: the newest whole batch, its counters, and who still reads older ones.
//!
//! Invariant: no version of a tree, and no version of an entry, that a pinned view needs is
//! dropped, since [`Published::watermark`] never passes a pin.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::docstore::changes::Counts;
use crate::docstore::state_file::StoreState;
use crate::ids::{RowId, Seq};

pub(super) struct Published {
    state: Mutex<PublishedState>,
}

struct PublishedState {
    /// Batches below this number are visible.
    visible: u64,
    applied: Seq,
    durable: Seq,
    next_row: RowId,
    counts: Arc<Counts>,
    /// How many views read as of a batch number.
    pins: BTreeMap<u64, usize>,
}

impl Published {
    /// What a store shows that was just opened.
    pub(super) fn new(on_disk: &StoreState, visible: u64) -> Self {
        let state = PublishedState {
            visible,
            applied: on_disk.durable,
            durable: on_disk.durable,
            next_row: on_disk.next_row,
            counts: Arc::new(on_disk.counts.clone()),
            pins: BTreeMap::new(),
        };
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, PublishedState> {
        self.state.lock().expect("no panic while the state is locked")
    }

    pub(super) fn applied(&self) -> Seq {
        self.state().applied
    }

    pub(super) fn durable(&self) -> Seq {
        self.state().durable
    }

    pub(super) fn next_row(&self) -> RowId {
        self.state().next_row
    }

    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.state().counts)
    }

    /// Shows a batch that is wholly in the trees, after `before`. `visible` is one more than its
    /// number there.
    pub(super) fn show(
        &self,
        visible: u64,
        applied: Seq,
        next_row: RowId,
        moves: &[(Option<u32>, Option<u32>)],
        before: impl FnOnce(),
    ) {
        let mut state = self.state();
        before();
        debug_assert!(state.visible <= visible && state.applied < applied);
        (state.visible, state.applied, state.next_row) = (visible, applied, next_row);
        if !moves.is_empty() {
            let counts = Arc::make_mut(&mut state.counts);
            moves.iter().for_each(|&(before, after)| counts.moved(before, after));
        }
    }

    /// Does something that must not meet the showing of a batch, unless one was shown since `pin`.
    pub(super) fn if_newest(&self, pin: &Pin, work: impl FnOnce()) {
        let state = self.state();
        if state.visible == pin.as_of {
            work();
        }
    }

    /// Moves past numbers that versions of the trees took. No batch may be half applied.
    pub(super) fn advance(&self, visible: u64) {
        let mut state = self.state();
        state.visible = state.visible.max(visible);
    }

    pub(super) fn set_durable(&self, durable: Seq) {
        self.state().durable = durable;
    }

    /// What no view reads below.
    pub(super) fn watermark(&self) -> u64 {
        let state = self.state();
        state.pins.keys().next().copied().unwrap_or(state.visible)
    }

    /// Keeps what is visible now until [`unpin`](Self::unpin).
    pub(super) fn pin(&self) -> Pin {
        let mut state = self.state();
        let as_of = state.visible;
        *state.pins.entry(as_of).or_default() += 1;
        Pin { as_of, applied: state.applied, counts: Arc::clone(&state.counts) }
    }

    /// A view is read no more.
    pub(super) fn unpin(&self, pin: &Pin) {
        let mut state = self.state();
        let pins = state.pins.get_mut(&pin.as_of).expect("a pin is counted until it is dropped");
        *pins -= 1;
        if *pins == 0 {
            state.pins.remove(&pin.as_of);
            // An empty map keeps a node, for each of many stores.
            if state.pins.is_empty() {
                state.pins = BTreeMap::new();
            }
        }
    }
}

/// A view that is being read.
pub(super) struct Pin {
    /// Batches below this number are part of the view.
    pub(super) as_of: u64,
    pub(super) applied: Seq,
    pub(super) counts: Arc<Counts>,
}
