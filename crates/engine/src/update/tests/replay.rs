//! Links of a log that are made again, when not all of those before them are.

use super::{Rows, assert_sound, built, delete_all, live, params, rows_of};
use crate::search::Overlay;
use crate::types::{NodeId, PageId, RowId};
use crate::update::images::PageReader;
use crate::update::{LinkedRow, LiveIndex, UpdateError};

const DIM: usize = 32;

fn link(node: NodeId, row: u64, neighbours: &[u32], back_edges: &[u32]) -> LinkedRow {
    let nodes = |ids: &[u32]| ids.iter().copied().map(NodeId).collect();
    LinkedRow {
        node,
        row: RowId(row),
        neighbours: nodes(neighbours),
        back_edges: nodes(back_edges),
        neighbour_rows: Vec::new(),
    }
}

/// The edges of a node.
fn edges_of(index: &LiveIndex, node: NodeId) -> Vec<u32> {
    let generation = index.current();
    let mut reader = PageReader::new(&generation.index, 1 << 20).unwrap();
    generation.load_nodes(&mut reader, [&node.0].into_iter()).unwrap();
    let mut edges = Vec::new();
    assert!(generation.edges_into(&reader, node, &mut edges));
    edges
}

fn assert_found(index: &LiveIndex, row: u64, vector: &[u8]) {
    let hits = index.search(vector, &params(100), None).unwrap().hits;
    assert!(rows_of(&hits).contains(&row), "row {row}: {hits:?}");
}

#[test]
fn nothing_leads_to_rows_whose_links_are_not_made_again() {
    let rows = Rows::clustered(1_302, DIM, 1);
    let place = built(&rows, 1_000);
    let replayed = place.copy();
    let index = live(&place.path);
    // Every third row is deleted before the crash, and the two behind it lie near it.
    let vector = |row: usize| {
        let mut vector = rows.row(row - row % 3).to_vec();
        vector[row % 3] ^= 1;
        vector
    };
    let links: Vec<_> =
        (1_002..1_302).map(|row| index.insert(RowId(row as u64), &vector(row)).unwrap()).collect();
    let (gone, kept): (Vec<_>, Vec<_>) = links.iter().partition(|link| link.row.0 % 3 == 0);
    let gone: Vec<_> = gone.iter().map(|link| link.node.0).collect();
    assert!(kept.iter().any(|link| link.neighbours.iter().any(|n| gone.contains(&n.0))));
    drop(index);
    let index = live(&replayed.path);
    for link in &kept {
        index.apply_link(link, &vector(link.row.0 as usize)).unwrap();
    }
    for link in &kept {
        let edges = edges_of(&index, link.node);
        assert!(edges.iter().all(|edge| !gone.contains(edge)), "{:?}: {edges:?}", link.row);
        for to in link.neighbours.iter().filter(|to| !gone.contains(&to.0)) {
            let edges = edges_of(&index, *to);
            assert!(edges.iter().all(|edge| !gone.contains(edge)), "{to:?}: {edges:?}");
        }
        assert_found(&index, link.row.0, &vector(link.row.0 as usize));
    }
    // The slots are for others.
    for row in 2_000..2_100 {
        index.insert(RowId(row), rows.row(row as usize - 1_500)).unwrap();
    }
    index.checkpoint(1).unwrap();
    drop(index);
    assert_sound(&replayed.path);
}

#[test]
fn a_row_without_most_of_its_neighbours_is_left_to_an_insert() {
    let rows = Rows::clustered(1_000, DIM, 2);
    let place = built(&rows, 900);
    let index = live(&place.path);
    let generation = index.current();
    let free = |nth: u32| NodeId(generation.index.pages() * per_page(&index) + nth);
    let lost: Vec<u32> = (1..=4).map(|nth| free(nth).0).collect();
    let mut neighbours = lost.clone();
    neighbours.push(index.node_of(RowId(1)).unwrap().0);
    let stray: [&[u32]; 4] = [&lost, &neighbours, &[free(0).0], &[]];
    for strays in stray {
        let refused = index.apply_link(&link(free(0), 950, strays, strays), rows.row(950));
        assert!(matches!(refused, Err(UpdateError::Stray { row: RowId(950) })), "{refused:?}");
        assert_eq!((index.node_of(RowId(950)), index.pending_bytes()), (None, 0));
        assert_eq!(generation.page_count(), generation.index.pages(), "no slot was taken");
    }
    index.insert(RowId(950), rows.row(950)).unwrap();
    assert_found(&index, 950, rows.row(950));
}

#[test]
fn the_first_row_of_an_emptied_graph_begins_it_in_a_replay_too() {
    let rows = Rows::clustered(300, DIM, 3);
    let place = built(&rows, 200);
    let index = live(&place.path);
    delete_all(&index, 0..200);
    let free = |nth: u32| NodeId(index.current().index.pages() * per_page(&index) + nth);
    // That of the row which began it is not made again, since it was deleted.
    index.apply_link(&link(free(1), 201, &[free(0).0], &[free(0).0]), rows.row(201)).unwrap();
    assert_found(&index, 201, rows.row(201));
    index.apply_link(&link(free(2), 202, &[free(1).0], &[free(1).0]), rows.row(202)).unwrap();
    // Another that believed to be the first.
    let refused = index.apply_link(&link(free(3), 203, &[], &[]), rows.row(203));
    assert!(matches!(refused, Err(UpdateError::Stray { .. })), "{refused:?}");
    assert_found(&index, 201, rows.row(201));
    assert_found(&index, 202, rows.row(202));
}

#[test]
fn a_row_that_every_prune_turns_away_is_found() {
    let rows = Rows::clustered(1_000, DIM, 4);
    let place = built(&rows, 1_000);
    let index = live(&place.path);
    let from = index.node_of(RowId(0)).unwrap();
    let generation = index.current();
    let mut pages = (generation.index.pages()..).map(PageId);
    let mut fresh = || generation.layout().node(pages.next().unwrap(), 0);
    // The farthest neighbour, and rows near the node which fill its list.
    let far = *edges_of(&index, from).last().unwrap();
    let mut reader = PageReader::new(&generation.index, 1 << 20).unwrap();
    generation.load_nodes(&mut reader, [&far].into_iter()).unwrap();
    let mut vector = Vec::new();
    generation.vector_into(&reader, NodeId(far), &mut vector);
    for nth in 0..generation.slack() {
        let mut filling = rows.row(0).to_vec();
        filling[nth % DIM] ^= 1;
        let link = link(fresh(), 2_000 + nth as u64, &[from.0], &[from.0]);
        index.apply_link(&link, &filling).unwrap();
    }
    // A row behind that neighbour, which hides it.
    let away = (0..DIM).find(|&d| vector[d] > rows.row(0)[d] && vector[d] < 255).unwrap();
    vector[away] += 1;
    let node = fresh();
    index.apply_link(&link(node, 3_000, &[far, from.0], &[from.0]), &vector).unwrap();
    assert!(!edges_of(&index, from).contains(&node.0), "it was turned away");
    assert!(edges_of(&index, NodeId(far)).contains(&node.0));
    assert_found(&index, 3_000, &vector);
}

#[test]
fn a_link_that_does_not_fit_leaves_no_memory_taken() {
    let rows = Rows::clustered(1_000, DIM, 5);
    let place = built(&rows, 900);
    let index = live(&place.path);
    let near: Vec<u32> = (0..8).map(|row| index.node_of(RowId(row)).unwrap().0).collect();
    let refused = index.apply_link(&link(NodeId(near[0]), 950, &near, &near), rows.row(950));
    assert!(matches!(refused, Err(UpdateError::Link { .. })), "{refused:?}");
    let beyond = link(NodeId(u32::MAX - 64), 950, &near, &near);
    let refused = index.apply_link(&beyond, rows.row(950));
    assert!(matches!(refused, Err(UpdateError::Full { .. })), "{refused:?}");
    assert_eq!((index.pending_bytes(), index.node_of(RowId(950))), (0, None));
}

fn per_page(index: &LiveIndex) -> u32 {
    index.current().layout().records_per_page() as u32
}
