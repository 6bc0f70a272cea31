//! Bytes to structs and back: pages, manifest, file headers, head index, checksums.
//!
//! Owns every structure on disk; `docs/disk-format.md` has a byte table for each, and a test
//! compares those tables with [`constants`]. No I/O here. A decoder accepts any bytes: what is
//! not valid becomes a [`FormatError`], never a panic, and never an allocation larger than a
//! small multiple of the input. Encoders take valid structs and panic on a programmer's mistake.

mod blocks;
mod bytes;
mod checksum;
pub mod constants;
mod diskann;
mod error;
mod file_header;
mod file_kind;
mod file_names;
mod head;
mod layout;
mod manifest;
mod manifest_codec;
mod maps;
mod page;
mod relative_path;

#[cfg(test)]
mod tests;

pub use blocks::{BlockChecksums, block_count};
pub use checksum::Identity;
pub use diskann::{DISKANN_SECTOR_BYTES, DiskannError, DiskannLayout, DiskannSummary};
pub use error::{FormatError, LayoutError, PageError};
pub use file_header::{FileHeader, open_body, seal_body};
pub use file_kind::FileKind;
pub(crate) use file_names::{
    LOCK_NAME, MANIFEST_WORK_NAME, is_number, is_of_generation, is_of_index, is_partition,
};
pub use head::HeadParts;
pub use layout::{LayoutOptions, RecordLayout};
pub use manifest::{
    BuildParameters, FileEntry, HeadParameters, Manifest, NamedFile, PartitionEntry, SegmentEntry,
};
pub use maps::{decode_page_map, decode_row_map, decode_row_pairs, decode_tombstones, encode_map};
pub use page::{PageView, PageWriter, check_page};
pub use relative_path::RelativePath;
