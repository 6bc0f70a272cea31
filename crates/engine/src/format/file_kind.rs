//! The kinds of files, and what follows from a kind: its name, and where body and checksums stand.

use std::fmt;

use super::constants::{ALIGNMENT, BLOCK_BYTES, file_header as field};

/// What a file holds. The numbers are those on disk; the first two have no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum FileKind {
    /// The manifest.
    Manifest = 1,
    /// Raw pages.
    Segment = 2,
    /// The codebook of the in-memory codes.
    Codebook = 3,
    /// The head index.
    Head = 4,
    /// Logical page to physical page.
    PageMap = 5,
    /// In-memory codes, by node; blocked.
    Codes = 6,
    /// Row id to node id; blocked.
    RowMap = 7,
    /// Nodes whose row was deleted and whose record is still part of the graph.
    Tombstones = 8,
    /// Row id and node id of some rows, by row; blocked.
    RowPairs = 9,
}

impl FileKind {
    /// The name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Segment => "segment",
            Self::Codebook => "codebook",
            Self::Head => "head index",
            Self::PageMap => "page map",
            Self::Codes => "codes",
            Self::RowMap => "row map",
            Self::Tombstones => "tombstones",
            Self::RowPairs => "row map of some rows",
        }
    }

    /// Whether the file has a checksum for each 4 KiB of its body.
    pub const fn is_blocked(self) -> bool {
        matches!(self, Self::Codes | Self::RowMap | Self::RowPairs)
    }

    /// Where the body starts.
    pub const fn body_offset(self) -> u64 {
        if self.is_blocked() { ALIGNMENT as u64 } else { field::BYTES as u64 }
    }

    /// Where the checksum array of a blocked file starts; the end of another.
    /// `None`: more than a u64 counts.
    pub fn checksums_offset(self, body_bytes: u64) -> Option<u64> {
        let end = self.body_offset().checked_add(body_bytes)?;
        if self.is_blocked() { end.checked_next_multiple_of(ALIGNMENT as u64) } else { Some(end) }
    }

    /// Length of the file for a body of `body_bytes`. `None`: more than a u64 counts.
    pub fn file_bytes(self, body_bytes: u64) -> Option<u64> {
        let array = self.checksums_offset(body_bytes)?;
        if !self.is_blocked() {
            return Some(array);
        }
        let end = array.checked_add(body_bytes.div_ceil(BLOCK_BYTES as u64).checked_mul(8)?)?;
        end.checked_next_multiple_of(ALIGNMENT as u64)
    }

    /// The value of the header's block size field.
    pub(super) const fn block_bytes(self) -> u32 {
        if self.is_blocked() { BLOCK_BYTES as u32 } else { 0 }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
