//! The two maps, logical page to physical page and row id to node id, and the list of
//! tombstones. All are a plain array of u32; in a map [`ABSENT`] stands for "none".

use super::bytes::u32s;
use super::constants::ABSENT;
use super::error::FormatError;
use super::file_kind::FileKind;

/// The body of a page map, a row map or a list of tombstones.
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

/// Reads a run of whole entries of a row map of some rows: row id and node id of each, by row.
/// `node_limit` is above every node id.
///
/// # Errors
/// [`FormatError`] where the length, the order or an entry is not possible.
pub fn decode_row_pairs(body: &[u8], node_limit: u64) -> Result<Vec<(u32, u32)>, FormatError> {
    let kind = FileKind::RowPairs;
    let (pairs, rest) = body.as_chunks::<8>();
    if !rest.is_empty() {
        let found = body.len() as u64;
        return Err(FormatError::Length { kind, expected: found.next_multiple_of(8), found });
    }
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let pairs: Vec<(u32, u32)> =
        pairs.iter().map(|pair| (word(&pair[..4]), word(&pair[4..]))).collect();
    if let Some(pair) = pairs.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        return Err(FormatError::value(kind, "row", format!("above {}", pair[0].0), pair[1].0));
    }
    match pairs.iter().find(|(_, node)| u64::from(*node) >= node_limit) {
        None => Ok(pairs),
        Some((_, node)) => {
            Err(FormatError::value(kind, "node", format!("below {node_limit}"), node))
        }
    }
}

/// Reads the tombstones of a partition: node ids in ascending order, each once and below
/// `node_limit`.
///
/// # Errors
/// [`FormatError`] where the length, the order or a node is not possible.
pub fn decode_tombstones(body: &[u8], node_limit: u64) -> Result<Vec<u32>, FormatError> {
    let kind = FileKind::Tombstones;
    if !body.len().is_multiple_of(4) {
        let found = body.len() as u64;
        return Err(FormatError::Length { kind, expected: found.next_multiple_of(4), found });
    }
    let nodes: Vec<u32> = u32s(body).collect();
    if let Some(pair) = nodes.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(FormatError::value(kind, "node", format!("above {}", pair[0]), pair[1]));
    }
    match nodes.last() {
        Some(&last) if u64::from(last) >= node_limit => {
            Err(FormatError::value(kind, "node", format!("below {node_limit}"), last))
        }
        _ => Ok(nodes),
    }
}

fn decode(kind: FileKind, body: &[u8], limit: u64) -> Result<Vec<u32>, FormatError> {
    let entries: Vec<u32> = u32s(body).collect();
    match entries.iter().find(|&&entry| entry != ABSENT && u64::from(entry) >= limit) {
        None => Ok(entries),
        Some(entry) => Err(FormatError::value(kind, "entry", format!("below {limit}"), entry)),
    }
}
