//! Pages that leave memory between being brought to hand and being looked at.

use super::{Rows, built, open_options};
use crate::index::{OpenOptions, Resident};
use crate::types::{NodeId, RowId};
use crate::update::images::{Images, PageReader, WithResident};
use crate::update::{LiveIndex, LiveOptions};

#[test]
fn pages_brought_to_hand_stay_there_when_they_leave_memory() {
    let rows = Rows::clustered(2_000, 32, 1);
    let place = built(&rows, rows.len());
    let open = OpenOptions { resident: Resident::All, ..open_options() };
    let accountant = open.accountant.clone();
    let index = LiveIndex::open(&place.path, LiveOptions { open, ..Default::default() }).unwrap();
    let stats = index.page_stats();
    assert!(stats.resident > 0 && stats.resident == stats.pages, "{stats:?}");
    let generation = index.current();
    let some: Vec<usize> = (0..rows.len()).step_by(40).collect();
    let nodes: Vec<NodeId> =
        some.iter().map(|&row| index.node_of(RowId(row as u64)).unwrap()).collect();
    let mut reader = PageReader::new(&generation.index, 1 << 20).unwrap();
    generation.load_nodes(&mut reader, nodes.iter().map(|node| &node.0)).unwrap();
    let beside = accountant.held_bytes() - u64::from(stats.room) * stats.page_bytes;
    index.set_memory_limit(Some(beside)).unwrap();
    assert_eq!(index.page_stats().resident, 0);
    let images = WithResident::new(&reader, &generation.index);
    for (row, node) in some.into_iter().zip(nodes) {
        let page = generation.layout().page_of(node);
        assert!(images.image(page).is_some(), "the page of row {row} is not at hand");
        let mut vector = Vec::new();
        generation.vector_into(&images, node, &mut vector);
        assert_eq!(vector, rows.row(row), "row {row} by its code");
        let mut edges = Vec::new();
        assert!(generation.edges_into(&images, node, &mut edges) && !edges.is_empty(), "row {row}");
    }
}
