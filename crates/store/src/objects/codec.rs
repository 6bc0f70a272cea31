//! Fields of our objects: little-endian, of fixed width, under a checksum that comes last.
//!
//! What a field claims is held against the bytes that are there before anything is allocated for it.

use xxhash_rust::xxh3::xxh3_64;

/// Length of the checksum that ends an object.
const CHECKSUM: usize = 8;

/// Appends the checksum, xxh3-64 of all before it, and tells it.
pub(crate) fn seal(bytes: &mut Vec<u8>) -> u64 {
    let checksum = xxh3_64(bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    checksum
}

/// The bytes before the checksum, and the checksum, if it is right.
pub(crate) fn unseal(bytes: &[u8]) -> Option<(&[u8], u64)> {
    let (body, last) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
    let checksum = u64::from_le_bytes(last.try_into().expect("split at its length"));
    (xxh3_64(body) == checksum).then_some((body, checksum))
}

/// A text of at most 65,535 bytes behind its length, a `u16`.
pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("bounded by whoever made it");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

/// Bytes not read yet. Each reading is `None` where they end too soon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N).map(|it| it.try_into().expect("of this length"))
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes that have to be zero.
    pub(crate) fn zero(&mut self, length: usize) -> Option<()> {
        self.bytes(length)?.iter().all(|it| *it == 0).then_some(())
    }

    /// What [`put_text`] wrote.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.u16()?;
        std::str::from_utf8(self.bytes(usize::from(length))?).ok()
    }

    /// Everything has to be read.
    pub(crate) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
