//! What the log of a collection takes for one row and its link, by the byte tables of
//! `docs/database-format.md`. The engine has no log of its own, so the workloads count here what
//! a collection would write: one record with the row, one with the link, nothing shared.

use pipeann_engine::update::LinkedRow;

/// Header of a frame, and what a frame is padded to.
const FRAME_HEADER: u64 = 48;
const FRAME_ALIGNMENT: u64 = 8;
/// The number of items in front of a record's list.
const LIST_START: u64 = 4;
/// Row id, partition, lengths of key and row; then an int64 key and the header of the row.
const PUT_ROW: u64 = 20 + 8 + 8;
/// Row id, node, field, lengths of the two lists.
const LINK: u64 = 24;

fn frame(payload: u64) -> u64 {
    FRAME_HEADER + (LIST_START + payload).next_multiple_of(FRAME_ALIGNMENT)
}

/// Bytes in the log of a row with one vector of `vector_bytes`, and of its link.
pub(crate) fn log_bytes(vector_bytes: usize, link: &LinkedRow) -> u64 {
    let lists = 4 * (link.neighbours.len() + link.back_edges.len()) as u64;
    frame(PUT_ROW + vector_bytes as u64) + frame(LINK + lists)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeann_engine::types::{NodeId, RowId};

    #[test]
    fn a_row_and_its_link_are_two_padded_frames() {
        let (neighbours, back_edges) = (vec![NodeId(1), NodeId(2)], vec![NodeId(1)]);
        let link = LinkedRow {
            node: NodeId(7),
            row: RowId(7),
            neighbours,
            back_edges,
            neighbour_rows: vec![],
        };
        assert_eq!(log_bytes(128, &link), (48 + 168) + (48 + 40));
    }
}
