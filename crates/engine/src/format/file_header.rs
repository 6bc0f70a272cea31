//! The 64-byte header that starts every file except the manifest and the segments.
//!
//! Two shapes of file carry it. A *whole* file is `header | body`, with one checksum for the
//! body: [`seal_body`] and [`open_body`]. A *blocked* file is read in parts: `header block of
//! 4096 bytes | body | checksum array | zeros up to a multiple of 4096`, see
//! [`BlockChecksums`](super::BlockChecksums). Its parts start on multiples of 4096.

use super::bytes::{get, get_u16, get_u32, get_u64, put};
use super::checksum::{Identity, checksum, mix};
use super::constants::{FILE_MAGIC, FILE_VERSION, file_header as field};
use super::error::FormatError;
use super::file_kind::FileKind;

/// What a file says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// What the file holds.
    pub kind: FileKind,
    /// Index that it belongs to.
    pub identity: Identity,
    /// Generation in which it was written.
    pub generation: u64,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Checksum of the body, in a blocked file of the checksum array.
    pub body_checksum: u64,
}

impl FileHeader {
    /// Bytes of a header.
    pub const BYTES: usize = field::BYTES;

    /// The header's bytes.
    ///
    /// # Panics
    /// For a manifest or a segment: they have no header.
    pub fn encode(&self) -> [u8; field::BYTES] {
        assert!(
            !matches!(self.kind, FileKind::Manifest | FileKind::Segment),
            "a {} has no file header",
            self.kind
        );
        let mut out = [0; field::BYTES];
        put(&mut out, field::MAGIC, &FILE_MAGIC);
        put(&mut out, field::KIND, &(self.kind as u16).to_le_bytes());
        put(&mut out, field::VERSION, &FILE_VERSION.to_le_bytes());
        put(&mut out, field::BLOCK_BYTES, &self.kind.block_bytes().to_le_bytes());
        put(&mut out, field::UUID, &self.identity.uuid);
        put(&mut out, field::GENERATION, &self.generation.to_le_bytes());
        put(&mut out, field::BODY_BYTES, &self.body_bytes.to_le_bytes());
        put(&mut out, field::BODY_CHECKSUM, &self.body_checksum.to_le_bytes());
        let sum = checksum(0, &out[..field::HEADER_CHECKSUM.offset]);
        put(&mut out, field::HEADER_CHECKSUM, &sum.to_le_bytes());
        out
    }

    /// Reads the header at the start of `bytes`, which may go on behind it, and checks that it
    /// is a `kind` of index `identity`. The generation is the caller's to compare.
    ///
    /// # Errors
    /// [`FormatError`] names what was found instead.
    pub fn decode(bytes: &[u8], kind: FileKind, identity: &Identity) -> Result<Self, FormatError> {
        let Some(bytes) = bytes.get(..field::BYTES) else {
            let (expected, found) = (field::BYTES as u64, bytes.len() as u64);
            return Err(FormatError::Length { kind, expected, found });
        };
        let magic = get(bytes, field::MAGIC);
        if magic != FILE_MAGIC {
            return Err(FormatError::Magic { kind, expected: FILE_MAGIC, found: magic });
        }
        let stored = get_u64(bytes, field::HEADER_CHECKSUM);
        let computed = checksum(0, &bytes[..field::HEADER_CHECKSUM.offset]);
        if stored != computed {
            let part = "the header";
            return Err(FormatError::Checksum { kind, part, expected: computed, found: stored });
        }
        let version = get_u16(bytes, field::VERSION);
        if version > FILE_VERSION {
            let (supported, found) = (u32::from(FILE_VERSION), u32::from(version));
            return Err(FormatError::NewerVersion { kind, supported, found });
        }
        if version != FILE_VERSION {
            return Err(FormatError::value(kind, "version", FILE_VERSION, version));
        }
        let found_kind = get_u16(bytes, field::KIND);
        if found_kind != kind as u16 {
            return Err(FormatError::Kind { expected: kind, found: found_kind });
        }
        let uuid = get(bytes, field::UUID);
        if uuid != identity.uuid {
            return Err(FormatError::Index { kind, expected: identity.uuid, found: uuid });
        }
        let block_bytes = get_u32(bytes, field::BLOCK_BYTES);
        if block_bytes != kind.block_bytes() {
            return Err(FormatError::value(kind, "block bytes", kind.block_bytes(), block_bytes));
        }
        let body_bytes = get_u64(bytes, field::BODY_BYTES);
        if kind.file_bytes(body_bytes).is_none() {
            return Err(FormatError::value(kind, "body bytes", "a possible length", body_bytes));
        }
        Ok(Self {
            kind,
            identity: *identity,
            generation: get_u64(bytes, field::GENERATION),
            body_bytes,
            body_checksum: get_u64(bytes, field::BODY_CHECKSUM),
        })
    }

    /// Length of the whole file.
    ///
    /// # Panics
    /// Where the body is longer than any file; a decoded header never is.
    pub fn file_bytes(&self) -> u64 {
        self.kind.file_bytes(self.body_bytes).expect("the body is no longer than a file can be")
    }

    /// Seed of the checksums inside this file.
    pub(super) fn seed(&self) -> u64 {
        mix(mix(self.identity.seed(), self.kind as u64), self.generation)
    }

    /// Compares the checksum of `bytes` with the one of the header.
    pub(super) fn check(&self, bytes: &[u8], part: &'static str) -> Result<(), FormatError> {
        let computed = checksum(self.seed(), bytes);
        if computed == self.body_checksum {
            return Ok(());
        }
        let (kind, found) = (self.kind, self.body_checksum);
        Err(FormatError::Checksum { kind, part, expected: computed, found })
    }
}

/// The bytes of a whole file: header and body.
///
/// # Panics
/// Where `kind` is blocked, a manifest or a segment.
pub fn seal_body(kind: FileKind, identity: &Identity, generation: u64, body: &[u8]) -> Vec<u8> {
    assert!(!kind.is_blocked(), "{kind} is a blocked file");
    let identity = *identity;
    let body_bytes = body.len() as u64;
    let mut header = FileHeader { kind, identity, generation, body_bytes, body_checksum: 0 };
    header.body_checksum = checksum(header.seed(), body);
    [&header.encode(), body].concat()
}

/// The checked body of a whole file.
///
/// # Errors
/// [`FormatError`] names what was found instead of an undamaged file of this kind and index.
///
/// # Panics
/// Where `kind` is blocked.
pub fn open_body<'a>(
    bytes: &'a [u8],
    kind: FileKind,
    identity: &Identity,
) -> Result<(FileHeader, &'a [u8]), FormatError> {
    assert!(!kind.is_blocked(), "{kind} is a blocked file");
    let header = FileHeader::decode(bytes, kind, identity)?;
    let (expected, found) = (header.file_bytes(), bytes.len() as u64);
    if expected != found {
        return Err(FormatError::Length { kind, expected, found });
    }
    let body = &bytes[field::BYTES..];
    header.check(body, "the body")?;
    Ok((header, body))
}
