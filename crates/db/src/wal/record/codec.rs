//! Records to payloads and back. A decoded record encodes to the same bytes.

use super::super::constants::{MAX_PAYLOAD_BYTES, link, list_start, put_row};
use super::bytes::{PayloadReader, number, push};
use super::error::RecordError;
use super::{Link, PutRow, Record, RecordKind};
use crate::ids::{NodeId, RowId};

/// Bytes of a row id in a list.
const ROW_ID_BYTES: usize = size_of::<u64>();
/// Bytes of a node id in a list.
const NODE_ID_BYTES: usize = size_of::<u32>();

/// Why a record has no bytes: its payload would be longer than
/// [`MAX_PAYLOAD_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of {found} bytes exceeds {MAX_PAYLOAD_BYTES}; write fewer rows at once")]
pub struct PayloadTooLarge {
    /// Bytes that the payload would have.
    pub found: u64,
}

impl<'a> Record<'a> {
    /// The payload of this record.
    ///
    /// # Errors
    /// [`PayloadTooLarge`] where it would be longer than a record can be.
    pub fn encode(&self) -> Result<Vec<u8>, PayloadTooLarge> {
        let found = self.payload_bytes();
        if found > MAX_PAYLOAD_BYTES as u64 {
            return Err(PayloadTooLarge { found });
        }
        // Every length and count below is less than the payload's, so it fits its field.
        let mut out = Vec::with_capacity(found as usize);
        match self {
            Self::Put(rows) => push_rows(&mut out, rows),
            Self::Delete(rows) => push_row_ids(&mut out, rows),
            Self::Upsert { deleted, rows } => {
                push_row_ids(&mut out, deleted);
                push_rows(&mut out, rows);
            }
            Self::Link(links) => push_links(&mut out, links),
        }
        debug_assert_eq!(out.len() as u64, found, "the length is known beforehand");
        Ok(out)
    }

    /// Reads the payload of a frame. Keys and blobs are borrowed from it.
    ///
    /// # Errors
    /// [`RecordError::CutOff`] or [`RecordError::Trailing`] where the bytes are no such record.
    pub fn decode(kind: RecordKind, payload: &'a [u8]) -> Result<Self, RecordError> {
        let mut reader = PayloadReader::new(payload);
        let record = match kind {
            RecordKind::Put => Self::Put(rows(&mut reader)?),
            RecordKind::Delete => Self::Delete(row_ids(&mut reader)?),
            RecordKind::Upsert => {
                Self::Upsert { deleted: row_ids(&mut reader)?, rows: rows(&mut reader)? }
            }
            RecordKind::Link => Self::Link(links(&mut reader)?),
        };
        reader.finish()?;
        Ok(record)
    }

    fn payload_bytes(&self) -> u64 {
        let of_rows = |rows: &[PutRow<'_>]| {
            let each = |row: &PutRow<'_>| put_row::BYTES + row.key.len() + row.blob.len();
            (list_start::BYTES + rows.iter().map(each).sum::<usize>()) as u64
        };
        let of_ids = |ids: &[RowId]| (list_start::BYTES + ids.len() * ROW_ID_BYTES) as u64;
        match self {
            Self::Put(rows) => of_rows(rows),
            Self::Delete(ids) => of_ids(ids),
            Self::Upsert { deleted, rows } => of_ids(deleted) + of_rows(rows),
            Self::Link(links) => {
                let each = |l: &Link| {
                    link::BYTES + (l.neighbours.len() + l.back_edges.len()) * NODE_ID_BYTES
                };
                (list_start::BYTES + links.iter().map(each).sum::<usize>()) as u64
            }
        }
    }
}

fn push_count(out: &mut Vec<u8>, count: usize) {
    push(out, [(list_start::COUNT, count as u64)]);
}

fn push_rows(out: &mut Vec<u8>, rows: &[PutRow<'_>]) {
    push_count(out, rows.len());
    for row in rows {
        push(
            out,
            [
                (put_row::ROW_ID, row.row.0),
                (put_row::PARTITION, u64::from(row.partition)),
                (put_row::KEY_BYTES, row.key.len() as u64),
                (put_row::BLOB_BYTES, row.blob.len() as u64),
            ],
        );
        out.extend_from_slice(row.key);
        out.extend_from_slice(row.blob);
    }
}

fn push_row_ids(out: &mut Vec<u8>, rows: &[RowId]) {
    push_count(out, rows.len());
    rows.iter().for_each(|row| out.extend_from_slice(&row.0.to_le_bytes()));
}

fn push_links(out: &mut Vec<u8>, links: &[Link]) {
    push_count(out, links.len());
    for l in links {
        push(
            out,
            [
                (link::ROW_ID, l.row.0),
                (link::NODE, u64::from(l.node.0)),
                (link::FIELD, u64::from(l.field)),
                (link::NEIGHBOURS, l.neighbours.len() as u64),
                (link::BACK_EDGES, l.back_edges.len() as u64),
            ],
        );
        let nodes = l.neighbours.iter().chain(&l.back_edges);
        nodes.for_each(|node| out.extend_from_slice(&node.0.to_le_bytes()));
    }
}

fn count(
    reader: &mut PayloadReader<'_>,
    item_bytes: usize,
    part: &'static str,
) -> Result<usize, RecordError> {
    let count = number(reader.take(list_start::BYTES as u64, part)?, list_start::COUNT);
    reader.expect(count, item_bytes, part)
}

fn rows<'a>(reader: &mut PayloadReader<'a>) -> Result<Vec<PutRow<'a>>, RecordError> {
    let count = count(reader, put_row::BYTES, "rows")?;
    let row = |_| {
        let start = reader.take(put_row::BYTES as u64, "a row")?;
        Ok(PutRow {
            row: RowId(number(start, put_row::ROW_ID)),
            partition: number(start, put_row::PARTITION) as u32,
            key: reader.take(number(start, put_row::KEY_BYTES), "a key")?,
            blob: reader.take(number(start, put_row::BLOB_BYTES), "a row's blob")?,
        })
    };
    (0..count).map(row).collect()
}

fn row_ids(reader: &mut PayloadReader<'_>) -> Result<Vec<RowId>, RecordError> {
    let count = count(reader, ROW_ID_BYTES, "row ids")?;
    let bytes = reader.take((count * ROW_ID_BYTES) as u64, "row ids")?;
    let (ids, _) = bytes.as_chunks::<ROW_ID_BYTES>();
    Ok(ids.iter().map(|id| RowId(u64::from_le_bytes(*id))).collect())
}

fn links(reader: &mut PayloadReader<'_>) -> Result<Vec<Link>, RecordError> {
    let count = count(reader, link::BYTES, "links")?;
    let one = |_| {
        let start = reader.take(link::BYTES as u64, "a link")?;
        Ok(Link {
            row: RowId(number(start, link::ROW_ID)),
            node: NodeId(number(start, link::NODE) as u32),
            field: number(start, link::FIELD) as u32,
            neighbours: nodes(reader, number(start, link::NEIGHBOURS), "neighbours")?,
            back_edges: nodes(reader, number(start, link::BACK_EDGES), "back edges")?,
        })
    };
    (0..count).map(one).collect()
}

fn nodes(
    reader: &mut PayloadReader<'_>,
    count: u64,
    part: &'static str,
) -> Result<Vec<NodeId>, RecordError> {
    let bytes = reader.take(count * NODE_ID_BYTES as u64, part)?;
    let (ids, _) = bytes.as_chunks::<NODE_ID_BYTES>();
    Ok(ids.iter().map(|id| NodeId(u32::from_le_bytes(*id))).collect())
}
