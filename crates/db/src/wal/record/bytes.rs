//! Fixed-width fields written to a payload, and read by a reader that runs out instead of
//! panicking.

use super::super::constants::ByteField;
use super::error::RecordError;

/// Appends a structure of fields that each hold a number.
pub(super) fn push<const N: usize>(out: &mut Vec<u8>, values: [(ByteField, u64); N]) {
    for (field, value) in values {
        let bytes = value.to_le_bytes();
        debug_assert!(bytes[field.bytes..].iter().all(|b| *b == 0), "{} overflows", field.name);
        out.extend_from_slice(&bytes[..field.bytes]);
    }
}

/// The number in `field` of a structure.
pub(super) fn number(structure: &[u8], field: ByteField) -> u64 {
    let bytes = &structure[field.offset..field.offset + field.bytes];
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Takes parts from the front of a payload.
pub(super) struct PayloadReader<'a> {
    rest: &'a [u8],
}

impl<'a> PayloadReader<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    pub(super) fn take(&mut self, bytes: u64, part: &'static str) -> Result<&'a [u8], RecordError> {
        let fits = usize::try_from(bytes).ok().and_then(|bytes| self.rest.split_at_checked(bytes));
        let left = self.rest.len() as u64;
        let (head, rest) =
            fits.ok_or(RecordError::CutOff { part, missing: bytes - bytes.min(left) })?;
        self.rest = rest;
        Ok(head)
    }

    /// Checks that `count` items of at least `item_bytes` can follow, before room is made for
    /// them.
    pub(super) fn expect(
        &self,
        count: u64,
        item_bytes: usize,
        part: &'static str,
    ) -> Result<usize, RecordError> {
        let (wanted, left) = (count.saturating_mul(item_bytes as u64), self.rest.len() as u64);
        if wanted > left {
            return Err(RecordError::CutOff { part, missing: wanted - left });
        }
        Ok(usize::try_from(count).expect("no more items than bytes"))
    }

    pub(super) fn finish(self) -> Result<(), RecordError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(RecordError::Trailing { bytes }),
        }
    }
}
