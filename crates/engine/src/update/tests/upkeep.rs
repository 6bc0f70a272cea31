//! When upkeep is due, and that it does what was.

use super::{
    Rows, assert_sound, built, consolidate, delete_all, insert_all, live, params, read_only,
};
use crate::types::{NodeId, RowId};
use crate::update::{Due, UpkeepOptions};

const DIM: usize = 32;

#[test]
fn each_kind_of_upkeep_is_due_at_its_own_share() {
    let rows = Rows::clustered(3_000, DIM, 1);
    let place = built(&rows, 2_000);
    let index = live(&place.path);
    let (tombstones, strewn, code_drift) = (0.1, 0.1, 1.1);
    let options = UpkeepOptions { dirty_bytes: 100_000, tombstones, strewn, code_drift };
    assert_eq!(index.due(&options), None);
    assert_eq!(index.upkeep(1, &options).unwrap().due, None);
    assert_eq!(index.generation(), 1, "where nothing is due nothing is written");
    let mut row = 2_000;
    while index.pending_bytes() < options.dirty_bytes {
        index.insert(RowId(row as u64), rows.row(row)).unwrap();
        row += 1;
    }
    assert_eq!(index.due(&options), Some(Due::Checkpoint));
    let report = index.upkeep(2, &options).unwrap();
    assert_eq!((report.due, report.checkpoints), (Some(Due::Checkpoint), 1));
    assert_eq!((index.due(&options), index.applied()), (None, 2));
    let dead = (index.rows() as usize).div_ceil(11) + 1;
    delete_all(&index, 0..dead);
    assert_eq!(index.due(&options), Some(Due::Consolidation));
    let report = index.upkeep(3, &options).unwrap();
    assert_eq!((report.removed, index.tombstones()), (dead as u64, 0));
    assert!(report.repaired > 1_000 && report.bytes_written > 0, "{report:?}");
    // Rows that came before the checkpoint count as strewn, too.
    let strewn = (index.rows() as usize).div_ceil(9);
    assert!(row - 2_000 < strewn, "{row}");
    insert_all(&index, &rows, row..2_000 + strewn);
    assert_eq!(index.due(&options), Some(Due::Rewrite));
    delete_all(&index, dead..dead + 5);
    let report = index.upkeep(4, &options).unwrap();
    assert_eq!((report.due, report.removed, report.retrained), (Some(Due::Rewrite), 5, false));
    assert_eq!((index.due(&options), index.tombstones()), (None, 0));
    drop(index);
    assert_sound(&place.path);
}

#[test]
fn short_memory_is_helped_by_checkpoints_on_the_way() {
    let rows = Rows::clustered(6_000, DIM, 1);
    let place = built(&rows, 6_000);
    let accountant = crate::memory::Accountant::new(None);
    let open =
        crate::index::OpenOptions { accountant: accountant.clone(), ..super::open_options() };
    let options = crate::update::LiveOptions { open, ..Default::default() };
    let index = crate::update::LiveIndex::open(&place.path, options).unwrap();
    // Less than the repaired lists of all nodes take.
    accountant.set_limit_bytes(Some(accountant.held_bytes() + (1 << 20)));
    delete_all(&index, 0..1_001);
    let report = index.upkeep(1, &UpkeepOptions::default()).unwrap();
    assert_eq!((report.due, report.removed), (Some(Due::Consolidation), 1_001));
    assert!(report.checkpoints > 1, "{report:?}");
    for row in (1_001..6_000).step_by(100) {
        let hits = index.search(rows.row(row), &params(60), None).unwrap().hits;
        assert_eq!(hits[0].distance, 0.0, "row {row}");
    }
    drop(index);
    assert_sound(&place.path);
}

#[test]
fn the_head_index_follows_the_rows() {
    let rows = Rows::clustered(8_000, DIM, 1);
    let place = built(&rows, 2_000);
    let index = live(&place.path);
    let head_nodes = || read_only(&place.path).manifest().head.nodes;
    assert_eq!(head_nodes(), 20);
    insert_all(&index, &rows, 2_000..8_000);
    index.checkpoint(1).unwrap();
    assert!((70..=81).contains(&head_nodes()), "{} for 8,000 rows", head_nodes());
    delete_all(&index, 0..6_000);
    index.upkeep(2, &UpkeepOptions { strewn: 9.0, ..UpkeepOptions::default() }).unwrap();
    assert!((10..=40).contains(&head_nodes()), "{} for 2,000 rows", head_nodes());
    drop(index);
    assert_sound(&place.path);
}

/// One in a hundred of the rows that come enters the head index, some at a time.
#[test]
fn rows_that_were_deleted_while_they_waited_stay_out_of_the_head_index() {
    let rows = Rows::clustered(2_300, DIM, 1);
    let place = built(&rows, 2_000);
    let index = live(&place.path);
    insert_all(&index, &rows, 2_000..2_002);
    let generation = index.current();
    let waiting = || generation.entrants.lock().unwrap();
    let in_head = |node: NodeId| generation.head().unwrap().nodes().contains(&node.0);
    let wait = |row: u64| {
        let node = index.node_of(RowId(row)).unwrap();
        waiting().push(node);
        index.delete(RowId(row)).unwrap();
        node
    };
    let consolidated = wait(2_001);
    consolidate(&index);
    assert_eq!((waiting().len(), index.tombstones()), (0, 0));
    insert_all(&index, &rows, 2_002..2_050);
    let deleted = wait(2_049);
    insert_all(&index, &rows, 2_050..2_101);
    assert_eq!(waiting().len(), 0, "another one made all of them enter");
    let entered = index.node_of(RowId(2_100)).unwrap();
    assert!(in_head(entered) && !in_head(deleted) && !in_head(consolidated));
}

#[test]
fn a_step_that_fails_holds_no_memory() {
    let rows = Rows::clustered(2_000, DIM, 1);
    let place = built(&rows, 2_000);
    let index = live(&place.path);
    delete_all(&index, 0..1_000);
    // All pages but the first one are damaged.
    let segment = place.path.join("part-0000/segment-000000.pages");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[index.current().layout().page_bytes()..].fill(0xa5);
    std::fs::write(&segment, bytes).unwrap();
    index.consolidate(1).unwrap_err();
    assert_eq!(index.pending_bytes(), 0);
}
