//! Bytes of queries that a server holds, whoever asked them. Slots bound how many each asker has, and
//! connections how many askers there are; of the longest queries both together are more than a machine
//! has.

/// So many bytes may be held.
const MOST: u64 = 256 << 20;

/// What is held, and how much may be.
#[derive(Debug)]
pub(super) struct HeldBytes {
    bytes: u64,
    most: u64,
}

impl Default for HeldBytes {
    fn default() -> Self {
        Self::at_most(MOST)
    }
}

impl HeldBytes {
    /// Nothing yet, and never more than so many bytes that can be refused.
    pub(super) fn at_most(most: u64) -> Self {
        Self { bytes: 0, most }
    }

    /// Whether there is room for so many more.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= self.most
    }

    /// Bytes that are held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn remove(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
