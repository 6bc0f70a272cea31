//! Work that was given up before it ended: the search has it until then, for nobody.

use std::collections::HashMap;

use crate::relay::work::Ticket;
use crate::wire::PeerId;

/// Such work, by who had asked for it.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    askers: HashMap<Ticket, PeerId>,
    counts: HashMap<PeerId, u32>,
}

impl GivenUp {
    /// Work was given up.
    pub(super) fn note(&mut self, ticket: Ticket, asker: PeerId) {
        if self.askers.insert(ticket, asker).is_none() {
            *self.counts.entry(asker).or_default() += 1;
        }
    }

    /// Work has ended.
    pub(super) fn ended(&mut self, ticket: Ticket) {
        let Some(asker) = self.askers.remove(&ticket) else { return };
        let count = self.counts.get_mut(&asker).expect("counted when it was given up");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&asker);
        }
    }

    /// How much of an asker's has not ended yet.
    pub(super) fn of(&self, asker: PeerId) -> u32 {
        self.counts.get(&asker).copied().unwrap_or_default()
    }
}
