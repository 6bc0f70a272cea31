//! Rows that are linked by the edges that another index has chosen.

use super::{Rows, assert_sound, built, insert_all, live, open_options, params, recall, rows_of};
use crate::types::RowId;
use crate::update::{LinkPace, LiveIndex, LiveOptions, RowLink, UpdateError};

const DIM: usize = 32;

/// Inserts rows, and tells how they were linked, in that order.
fn inserted(index: &LiveIndex, rows: &Rows, range: std::ops::Range<usize>) -> Vec<RowLink> {
    let some: Vec<_> = range.map(|row| (RowId(row as u64), rows.row(row))).collect();
    let mut links = Vec::new();
    let mut linked =
        |_, outcome: Result<_, UpdateError>| links.push(RowLink::from(&outcome.unwrap()));
    index.insert_many(&some, LinkPace::Full, &mut linked).unwrap();
    links
}

fn adopted(index: &LiveIndex, rows: &Rows, links: &[RowLink]) -> Vec<Result<bool, UpdateError>> {
    let call: Vec<_> = links.iter().map(|link| (link, rows.row(link.row.0 as usize))).collect();
    let mut outcomes = Vec::new();
    let mut told = |nth, outcome| {
        assert_eq!(nth, outcomes.len(), "in the order of the call");
        outcomes.push(outcome);
    };
    index.adopt(&call, &mut told).unwrap();
    outcomes
}

#[test]
fn rows_are_found_as_well_by_edges_that_another_index_has_chosen() {
    let rows = Rows::clustered(16_000, DIM, 1);
    let queries = Rows::clustered(100, DIM, 2);
    let gone = |row: &usize| row % 40 == 3;
    let truth: Vec<Vec<u64>> = (0..queries.len())
        .map(|q| rows.truth(queries.row(q), 10, (0..rows.len()).filter(|row| !gone(row))))
        .collect();
    // Another graph of other nodes: some rows came later, and those that go have gone before.
    let (place, other) = (built(&rows, 8_000), built(&rows, 7_000));
    let (index, adopting) = (live(&place.path), live(&other.path));
    insert_all(&adopting, &rows, 7_000..8_000);
    for row in (0..8_000).filter(gone) {
        adopting.delete(RowId(row as u64)).unwrap();
    }
    for from in (8_000..rows.len()).step_by(100) {
        let links = inserted(&index, &rows, from..from + 100);
        assert!(links.iter().all(|link| !link.back_edges.is_empty()));
        for outcome in adopted(&adopting, &rows, &links) {
            assert!(outcome.unwrap(), "most neighbours are here");
        }
        for row in (from..from + 100).filter(gone) {
            adopting.delete(RowId(row as u64)).unwrap();
        }
    }
    for row in (0..rows.len()).filter(gone) {
        index.delete(RowId(row as u64)).unwrap();
    }
    let found = |index: &LiveIndex, list| {
        recall(&queries, &truth, |q| index.search(q, &params(list), None).unwrap().hits)
    };
    for list in [20, 40] {
        let (of_searched, of_adopted) = (found(&index, list), found(&adopting, list));
        assert!(of_adopted >= of_searched - 0.01, "{of_adopted}, searched {of_searched}, {list}");
    }
    adopting.checkpoint(1).unwrap();
    assert!(found(&adopting, 40) >= found(&index, 40) - 0.01);
    drop(adopting);
    assert_sound(&other.path);
}

#[test]
fn a_row_without_most_of_its_neighbours_is_left_to_a_search() {
    let rows = Rows::clustered(1_000, DIM, 3);
    let (place, other) = (built(&rows, 900), built(&rows, 900));
    let (index, adopting) = (live(&place.path), live(&other.path));
    let links = inserted(&index, &rows, 900..901);
    let half = links[0].neighbours.len() / 2;
    for row in &links[0].neighbours[..=half + 1] {
        adopting.delete(*row).unwrap();
    }
    let outcomes = adopted(&adopting, &rows, &links);
    assert!(matches!(outcomes[..], [Ok(false)]), "{outcomes:?}");
    assert_eq!(adopting.node_of(RowId(900)), None, "nothing was changed");
    adopting.insert(RowId(900), rows.row(900)).unwrap();
    let nobody = RowLink { row: RowId(901), ..RowLink::default() };
    assert!(matches!(adopted(&adopting, &rows, &[nobody])[..], [Ok(false)]));
}

#[test]
fn links_that_contradict_the_index_change_nothing() {
    let rows = Rows::clustered(1_000, DIM, 4);
    let place = built(&rows, 900);
    let index = live(&place.path);
    let near = vec![RowId(1), RowId(2), RowId(3)];
    let link = |row| RowLink { row: RowId(row), neighbours: near.clone(), back_edges: vec![] };
    // Strangers as neighbours, itself, one twice, and one that has no edge back.
    let mut odd = link(950);
    odd.neighbours.extend([RowId(950), RowId(u64::MAX), RowId(1)]);
    odd.back_edges = vec![RowId(950), RowId(u64::MAX), RowId(7), RowId(7)];
    let outcomes = adopted(&index, &rows, &[link(7), link(900), link(900), odd]);
    assert!(matches!(outcomes[0], Err(UpdateError::RowExists(RowId(7)))));
    assert!(matches!(outcomes[1], Ok(true)));
    assert!(matches!(outcomes[2], Err(UpdateError::RowExists(RowId(900)))));
    assert!(matches!(outcomes[3], Ok(true)));
    let far = RowLink { row: RowId(u64::MAX), ..link(0) };
    let mut refused = Vec::new();
    index
        .adopt(&[(&far, rows.row(0)), (&link(951), &rows.row(0)[1..])], &mut |_, outcome| {
            refused.push(outcome);
        })
        .unwrap();
    assert!(matches!(refused[0], Err(UpdateError::Row { .. })));
    assert!(matches!(refused[1], Err(UpdateError::Vector(_))));
    for row in [900, 950] {
        let hits = index.search(rows.row(row), &params(40), None).unwrap().hits;
        assert_eq!(rows_of(&hits)[0], row as u64);
    }
    index.checkpoint(1).unwrap();
    drop(index);
    assert_sound(&place.path);
}

#[test]
fn a_row_for_which_no_node_is_left_holds_no_memory() {
    let rows = Rows::clustered(2_000, DIM, 5);
    let place = built(&rows, 900);
    let options = LiveOptions { open: open_options(), fresh_rows: Some(0), ..Default::default() };
    let index = LiveIndex::open(&place.path, options).unwrap();
    let near = vec![RowId(1), RowId(2), RowId(3)];
    let link = |row| RowLink { row: RowId(row), neighbours: near.clone(), back_edges: vec![] };
    let links: Vec<_> = (900..1_900).map(link).collect();
    let outcomes = adopted(&index, &rows, &links);
    let linked = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let full = |outcome: &Result<bool, _>| matches!(outcome, Err(UpdateError::Full { .. }));
    assert!(outcomes[linked..].iter().all(full), "{:?}", outcomes[linked]);
    let held = index.pending_bytes();
    adopted(&index, &rows, &links[linked..]);
    assert_eq!(index.pending_bytes(), held);
    let least = linked as u64 * rows.dim as u64;
    assert!(held >= least && held < (linked as u64 + 1) * 1_000, "{held} for {linked} rows");
}
