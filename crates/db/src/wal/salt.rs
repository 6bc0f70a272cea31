//! What tells the marks of a segment from bytes of a client that look like one.
//!
//! Behind a frame whose header is torn, the length of its payload is not known, so marks are looked
//! for in the payload, too. Clients choose its bytes, and whatever else stands in a mark they can
//! know or compute. So all marks of a segment have a number in common that only its file tells.

use super::constants::mark;

/// The number that the marks of one segment share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Salt([u8; mark::BYTES]);

impl Salt {
    /// From a number that no client can foresee.
    pub(super) fn new(number: u64) -> Self {
        Self(number.to_le_bytes())
    }

    /// The salt in the payload of a mark; `None` of one that an earlier version wrote.
    pub(super) fn of(payload: &[u8]) -> Option<Self> {
        payload.try_into().ok().map(Self)
    }

    /// The payload of a mark.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
