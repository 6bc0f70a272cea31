//! What can be wrong with bytes: which file or page, what was expected, what was found.

use super::constants::{
    MAX_DEGREE, MAX_DIM, MAX_PATH_BYTES, MAX_RECORD_BYTES, MAX_RECORDS_PER_PAGE,
};
use super::file_kind::FileKind;
use crate::types::{ErrorClass, PageId};

/// Why a record layout is not possible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// Dimension out of range, or of bits that do not fill bytes.
    #[error("dimension {dim} is not in 1..={MAX_DIM}, or no multiple of 8 for binary vectors")]
    Dimension {
        /// Dimension found.
        dim: usize,
    },
    /// Degree out of range.
    #[error("degree {max_degree} is not in 1..={MAX_DEGREE}")]
    Degree {
        /// Degree found.
        max_degree: usize,
    },
    /// Fill out of range.
    #[error("fill {fill} is not above 0 and at most 1")]
    Fill {
        /// Fill found.
        fill: f64,
    },
    /// More rows than node ids.
    #[error("{rows} rows need more than the {slots} node ids of {edge_bytes}-byte edges")]
    Rows {
        /// Rows asked for.
        rows: u64,
        /// Node ids there are.
        slots: u64,
        /// Width of an edge.
        edge_bytes: usize,
    },
    /// A record that is too large.
    #[error("a node record of {record_bytes} bytes exceeds {MAX_RECORD_BYTES}")]
    Record {
        /// Size the record would have.
        record_bytes: u64,
    },
    /// A page size that is no multiple of 4 KiB or holds no record.
    #[error("a page of {page_bytes} bytes cannot hold records of {record_bytes} bytes")]
    Page {
        /// Page size asked for.
        page_bytes: usize,
        /// Size of a record.
        record_bytes: usize,
    },
    /// A number in a stored descriptor that this version does not know.
    #[error("record descriptor: {field} is {found}, which this version does not know")]
    Unknown {
        /// Field of the descriptor.
        field: &'static str,
        /// Value found.
        found: u32,
    },
    /// A stored descriptor that contradicts itself.
    #[error("record descriptor: {field} is {found}, the other fields make it {expected}")]
    Contradiction {
        /// Field of the descriptor.
        field: &'static str,
        /// What follows from the other fields.
        expected: usize,
        /// Value found.
        found: usize,
    },
}

impl LayoutError {
    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Contradiction { .. } => ErrorClass::Stop,
            _ => ErrorClass::FixInput,
        }
    }
}

/// Why bytes are not the page that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Fewer bytes than a page header.
    #[error("page {}: {found} bytes are shorter than a page header", .page.0)]
    Short {
        /// Page asked for.
        page: PageId,
        /// Bytes found.
        found: usize,
    },
    /// The magic is missing: never written, or no page of this format.
    #[error("page {}: found magic {found:#010x}, expected {expected:#010x}", .page.0)]
    Magic {
        /// Page asked for.
        page: PageId,
        /// Magic of a page.
        expected: u32,
        /// Magic found.
        found: u32,
    },
    /// Damaged, or a page of another index.
    #[error(
        "page {}: checksum is {found:#018x}, its bytes and this index's uuid make {expected:#018x}",
        .page.0
    )]
    Checksum {
        /// Page asked for.
        page: PageId,
        /// Checksum computed from the bytes.
        expected: u64,
        /// Checksum stored in the page.
        found: u64,
    },
    /// Intact, but another page of this index: a misdirected read or write, or a wrong page map.
    #[error("page {}: found page {} in its place", .expected.0, .found.0)]
    Number {
        /// Page asked for.
        expected: PageId,
        /// Page found.
        found: PageId,
    },
}

impl PageError {
    /// The page that was asked for.
    pub fn page(&self) -> PageId {
        match *self {
            Self::Short { page, .. }
            | Self::Magic { page, .. }
            | Self::Checksum { page, .. }
            | Self::Number { expected: page, .. } => page,
        }
    }

    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::Stop
    }
}

/// Why bytes are not the file that was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FormatError {
    /// The file is shorter or longer than it says, or than the manifest says.
    #[error("{kind}: {found} bytes, expected {expected}: the file is cut off or replaced")]
    Length {
        /// Kind of file.
        kind: FileKind,
        /// Bytes expected.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// A structure does not end where its own counts say.
    #[error("{kind}: {part} needs more bytes than there are")]
    CutOff {
        /// Kind of file.
        kind: FileKind,
        /// Part that was being read.
        part: &'static str,
    },
    /// The first bytes are not ours.
    #[error("{kind}: starts with {found:02x?}, expected {expected:02x?}: not a pipeann file")]
    Magic {
        /// Kind of file.
        kind: FileKind,
        /// Magic expected.
        expected: [u8; 8],
        /// Bytes found.
        found: [u8; 8],
    },
    /// Written by a newer program.
    #[error("{kind}: format version {found}, but this program reads up to {supported}; upgrade it")]
    NewerVersion {
        /// Kind of file.
        kind: FileKind,
        /// Newest version known here.
        supported: u32,
        /// Version found.
        found: u32,
    },
    /// A file of another kind.
    #[error("expected a {expected} file, found kind {found}")]
    Kind {
        /// Kind asked for.
        expected: FileKind,
        /// Number of the kind found.
        found: u16,
    },
    /// A file of another index.
    #[error("{kind}: belongs to index {}, expected {}", UuidHex(.found), UuidHex(.expected))]
    Index {
        /// Kind of file.
        kind: FileKind,
        /// uuid expected.
        expected: [u8; 16],
        /// uuid found.
        found: [u8; 16],
    },
    /// A file of another generation.
    #[error("{kind}: written in generation {found}, expected {expected}")]
    Generation {
        /// Kind of file.
        kind: FileKind,
        /// Generation expected.
        expected: u64,
        /// Generation found.
        found: u64,
    },
    /// Damaged bytes.
    #[error("{kind}: checksum of {part} is {found:#018x}, its bytes make {expected:#018x}")]
    Checksum {
        /// Kind of file.
        kind: FileKind,
        /// What it covers.
        part: &'static str,
        /// Checksum computed from the bytes.
        expected: u64,
        /// Checksum stored.
        found: u64,
    },
    /// A damaged block of a blocked file.
    #[error("{kind}: checksum of block {block} is {expected:#018x}, its bytes make {found:#018x}")]
    Block {
        /// Kind of file.
        kind: FileKind,
        /// Number of the 4 KiB block.
        block: u64,
        /// Checksum in the array.
        expected: u64,
        /// Checksum computed from the bytes.
        found: u64,
    },
    /// A number that is out of its range.
    #[error("{kind}: {field} is {found}, expected {expected}")]
    Value {
        /// Kind of file.
        kind: FileKind,
        /// Name of the field.
        field: &'static str,
        /// What is allowed.
        expected: String,
        /// Value found.
        found: String,
    },
    /// A path that leaves the index directory, or is no plain path.
    #[error(
        "path `{found}` is refused: paths are 1 to {MAX_PATH_BYTES} letters, digits, `.`, `_`, \
         `-` and `/`, relative, without empty, `.` or `..` parts"
    )]
    Path {
        /// Path found.
        found: String,
    },
    /// The record descriptor is not valid.
    #[error("manifest: {0}")]
    Layout(#[from] LayoutError),
}

impl FormatError {
    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Magic { .. }
            | Self::NewerVersion { .. }
            | Self::Kind { .. }
            | Self::Index { .. }
            | Self::Generation { .. }
            | Self::Path { .. } => ErrorClass::FixInput,
            Self::Length { .. }
            | Self::CutOff { .. }
            | Self::Checksum { .. }
            | Self::Block { .. }
            | Self::Value { .. } => ErrorClass::Stop,
            Self::Layout(error) => error.class(),
        }
    }

    /// A [`FormatError::Value`].
    pub(crate) fn value(
        kind: FileKind,
        field: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Self {
        Self::Value { kind, field, expected: expected.to_string(), found: found.to_string() }
    }
}

/// A uuid as 32 hexadecimal digits.
struct UuidHex<'a>(&'a [u8; 16]);

impl std::fmt::Display for UuidHex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

// The occupancy bitmap of a page is one u64.
const _: () = assert!(MAX_RECORDS_PER_PAGE == u64::BITS as usize);
