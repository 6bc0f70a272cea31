//! The two maps: logical page to physical page, and row id to node id. Both are a plain array
//! of u32; [`ABSENT`] stands for "none".

use super::bytes::u32s;
use super::constants::ABSENT;
use super::error::FormatError;
use super::file_header::FileKind;

/// The body of a page map or a row map.
pub fn encode_map(entries: &[u32]) -> Vec<u8> {
    entries.iter().flat_map(|entry| entry.to_le_bytes()).collect()
}

/// Reads the page map of a partition of `pages` logical pages over `physical_pages`: entry `i`
/// is the physical page of the partition's `i`-th logical page, or [`ABSENT`].
///
/// # Errors
/// [`FormatError`] where the length or an entry is not possible.
pub fn decode_page_map(
    body: &[u8],
    pages: u32,
    physical_pages: u32,
) -> Result<Vec<u32>, FormatError> {
    let (expected, found) = (u64::from(pages) * 4, body.len() as u64);
    if expected != found {
        return Err(FormatError::Length { kind: FileKind::PageMap, expected, found });
    }
    decode(FileKind::PageMap, body, u64::from(physical_pages))
}

/// Reads a row map, or a run of whole entries of one: entry `i` is the node of the `i`-th row,
/// or [`ABSENT`]. `node_limit` is above every node id.
///
/// # Errors
/// [`FormatError`] where the length or an entry is not possible.
pub fn decode_row_map(body: &[u8], node_limit: u64) -> Result<Vec<u32>, FormatError> {
    if !body.len().is_multiple_of(4) {
        let found = body.len() as u64;
        let expected = found.next_multiple_of(4);
        return Err(FormatError::Length { kind: FileKind::RowMap, expected, found });
    }
    decode(FileKind::RowMap, body, node_limit)
}

fn decode(kind: FileKind, body: &[u8], limit: u64) -> Result<Vec<u32>, FormatError> {
    let entries: Vec<u32> = u32s(body).collect();
    match entries.iter().find(|&&entry| entry != ABSENT && u64::from(entry) >= limit) {
        None => Ok(entries),
        Some(entry) => Err(FormatError::value(kind, "entry", format!("below {limit}"), entry)),
    }
}
