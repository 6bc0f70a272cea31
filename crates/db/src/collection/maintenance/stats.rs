//! What a collection holds.

use crate::collection::Collection;
use crate::ids::Seq;

/// What a collection holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionStats {
    /// Live rows.
    pub rows: u64,
    /// Row ids that were given out, as far as readers see.
    pub next_row: u64,
    /// The last record that readers see.
    pub visible: Seq,
    /// The last record that every component would still have after a power cut.
    pub flushed: Seq,
    /// The last record that the log would still have after a power cut; no component is ahead of it.
    pub synced: Seq,
    /// Vectors that are kept, by name of their field; those of deleted rows are among them.
    pub vectors: Vec<(String, u64)>,
    /// Why no writes are accepted, if so.
    pub stopped: Option<String>,
}

impl Collection {
    /// What the collection holds. Waits for no writer.
    pub fn stats(&self) -> CollectionStats {
        let live = self.components.live();
        let fields = &self.components.fields;
        CollectionStats {
            rows: live.len(),
            next_row: live.next_row.max(self.components.rows.next_row()).0,
            visible: live.applied,
            flushed: self.components.flushed_through(),
            synced: self.log.durable(),
            vectors: fields.iter().map(|f| (f.name.clone(), f.vectors.len())).collect(),
            stopped: self.turns.stopped(),
        }
    }
}
