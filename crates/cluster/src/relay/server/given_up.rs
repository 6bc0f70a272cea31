//! Work that was given up before it ended: the search has it until then, for nobody.

use std::collections::HashMap;

use crate::relay::work::Ticket;
use crate::wire::PeerId;

/// Such work.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    /// Who had asked, and what the search holds of it.
    of: HashMap<Ticket, (PeerId, u64)>,
    counts: HashMap<PeerId, u32>,
}

impl GivenUp {
    /// Work was given up, of so many bytes.
    pub(super) fn note(&mut self, ticket: Ticket, asker: PeerId, bytes: u64) {
        if self.of.insert(ticket, (asker, bytes)).is_none() {
            *self.counts.entry(asker).or_default() += 1;
        }
    }

    /// Work has ended. Gives the bytes that it held.
    pub(super) fn ended(&mut self, ticket: Ticket) -> u64 {
        let Some((asker, bytes)) = self.of.remove(&ticket) else { return 0 };
        let count = self.counts.get_mut(&asker).expect("counted when it was given up");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&asker);
        }
        bytes
    }

    /// How much of an asker's has not ended yet.
    pub(super) fn of(&self, asker: PeerId) -> u32 {
        self.counts.get(&asker).copied().unwrap_or_default()
    }
}
