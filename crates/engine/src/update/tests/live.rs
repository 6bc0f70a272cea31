//! Inserts, deletes, consolidation and checkpoints as a caller sees them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    Rows, assert_sound, built, consolidate, delete_all, insert_all, live, params, read_only,
    recall, rows_of,
};
use crate::index::StandingError;
use crate::types::RowId;
use crate::update::{LiveIndex, UpdateError};

const DIM: usize = 32;

fn truths(rows: &Rows, queries: &Rows, live: &[usize]) -> Vec<Vec<u64>> {
    (0..queries.len()).map(|q| rows.truth(queries.row(q), 10, live.iter().copied())).collect()
}

fn live_recall(index: &LiveIndex, queries: &Rows, truth: &[Vec<u64>], list: usize) -> f64 {
    recall(queries, truth, |q| index.search(q, &params(list), None).unwrap().hits)
}

#[test]
fn rows_inserted_one_by_one_are_found_as_well_as_built_ones() {
    let rows = Rows::clustered(20_000, DIM, 1);
    let queries = Rows::clustered(100, DIM, 2);
    let all: Vec<usize> = (0..rows.len()).collect();
    let truth = truths(&rows, &queries, &all);
    let fresh = built(&rows, rows.len());
    let fresh = read_only(&fresh.path);
    let place = built(&rows, rows.len() / 2);
    let index = live(&place.path);
    insert_all(&index, &rows, rows.len() / 2..rows.len());
    assert_eq!(index.rows(), 20_000);
    for list in [20, 40] {
        let of_fresh =
            recall(&queries, &truth, |q| fresh.search(q, &params(list), None).unwrap().hits);
        let of_live = live_recall(&index, &queries, &truth, list);
        assert!(of_live >= of_fresh - 0.01, "{of_live}, fresh {of_fresh}, list {list}");
    }
    let before: Vec<_> = (0..queries.len())
        .map(|q| index.search(queries.row(q), &params(40), None).unwrap().hits)
        .collect();
    let report = index.checkpoint(7).unwrap();
    assert!(report.changed_pages > 0 && report.generation == 2, "{report:?}");
    assert_eq!((index.applied(), index.pending_bytes()), (7, 0));
    let of_live = live_recall(&index, &queries, &truth, 40);
    let same = recall(&queries, &before.iter().map(|h| rows_of(h)).collect::<Vec<_>>(), |q| {
        index.search(q, &params(40), None).unwrap().hits
    });
    assert!(same >= 0.98 && of_live >= 0.95, "{same} the same, {of_live}");
    drop(index);
    assert_sound(&place.path);
    // Reopened, for reading alone and live, the answers are the ones of the checkpoint.
    let (reader, index) = (read_only(&place.path), live(&place.path));
    assert_eq!((reader.rows(), index.rows()), (20_000, 20_000));
    for q in 0..20 {
        let answer = |hits| rows_of(hits);
        let one = reader.search(queries.row(q), &params(40), None).unwrap();
        let other = index.search(queries.row(q), &params(40), None).unwrap();
        assert_eq!(answer(&one.hits), answer(&other.hits));
    }
}

#[test]
fn deleted_rows_leave_the_graph_and_their_slots_are_used_again() {
    let rows = Rows::clustered(9_000, DIM, 1);
    let queries = Rows::clustered(100, DIM, 2);
    let place = built(&rows, 6_000);
    let index = live(&place.path);
    for row in (0..6_000).step_by(3) {
        assert!(index.delete(RowId(row)).unwrap());
        assert!(!index.delete(RowId(row)).unwrap(), "a row is deleted once");
    }
    assert_eq!((index.rows(), index.tombstones()), (4_000, 2_000));
    insert_all(&index, &rows, 6_000..7_000);
    let alive: Vec<usize> = (0..7_000).filter(|r| *r >= 6_000 || r % 3 != 0).collect();
    let truth = truths(&rows, &queries, &alive);
    let with_tombstones = live_recall(&index, &queries, &truth, 60);
    index.checkpoint(0).unwrap();
    let refused = read_only(&place.path).standing_graph(&mut |_| {}).unwrap_err();
    assert!(matches!(refused, StandingError::Deleted(2_000)), "{refused}");
    assert_eq!(consolidate(&index), 2_000);
    assert_eq!((index.tombstones(), index.rows()), (0, 5_000));
    let consolidated = live_recall(&index, &queries, &truth, 60);
    index.checkpoint(1).unwrap();
    let pages = read_only(&place.path).pages();
    // Only now could it be laid out anew.
    let standing = read_only(&place.path).standing_graph(&mut |_| {}).unwrap();
    let ids = alive.iter().map(|row| RowId(*row as u64));
    assert!(standing.ids.iter().copied().eq(ids));
    let folded = live_recall(&index, &queries, &truth, 60);
    for recall in [with_tombstones, consolidated, folded] {
        assert!(recall >= 0.97, "{with_tombstones}, {consolidated}, {folded}");
    }
    // As many rows again as have gone fit into the slots that became free.
    insert_all(&index, &rows, 7_000..9_000);
    index.checkpoint(2).unwrap();
    let after = read_only(&place.path).pages();
    assert!(after <= pages + pages / 10, "{pages} pages, then {after}");
    assert_eq!(index.rows(), 7_000);
    let alive: Vec<usize> = (0..9_000).filter(|r| *r >= 6_000 || r % 3 != 0).collect();
    let truth = truths(&rows, &queries, &alive);
    assert!(live_recall(&index, &queries, &truth, 60) >= 0.97);
    drop(index);
    assert_sound(&place.path);
}

#[test]
fn tombstones_outlive_a_checkpoint() {
    let rows = Rows::clustered(2_000, DIM, 1);
    let place = built(&rows, 2_000);
    let index = live(&place.path);
    delete_all(&index, 0..100);
    let before = read_only(&place.path);
    index.checkpoint(1).unwrap();
    drop(index);
    assert_sound(&place.path);
    // Who had the old generation open goes on reading it, though its files have gone.
    let answer = before.search(rows.row(7), &params(30), None).unwrap();
    assert_eq!((before.rows(), answer.hits[0].row), (2_000, RowId(7)));
    let (reader, index) = (read_only(&place.path), live(&place.path));
    assert_eq!((reader.rows(), index.rows(), index.tombstones()), (1_900, 1_900, 100));
    for row in 0..100 {
        for hits in [
            reader.search(rows.row(row), &params(30), None).unwrap().hits,
            index.search(rows.row(row), &params(30), None).unwrap().hits,
        ] {
            assert!(hits.iter().all(|h| h.row.0 >= 100), "row {row}: {hits:?}");
        }
        assert!(!index.delete(RowId(row as u64)).unwrap());
    }
    assert_eq!(consolidate(&index), 100);
    index.checkpoint(2).unwrap();
    drop(index);
    assert_sound(&place.path);
    assert_eq!(live(&place.path).tombstones(), 0);
}

#[test]
fn a_link_is_made_again_without_a_search_and_twice_is_once() {
    let rows = Rows::clustered(3_000, DIM, 1);
    let queries = Rows::clustered(50, DIM, 2);
    let one = built(&rows, 2_000);
    let other = one.copy();
    let mut links = Vec::new();
    let index = live(&one.path);
    for row in 2_000..3_000 {
        links.push(index.insert(RowId(row as u64), rows.row(row)).unwrap());
    }
    drop(index);
    let replayed = live(&other.path);
    for _ in 0..2 {
        for link in &links {
            replayed.apply_link(link, rows.row(link.row.0 as usize)).unwrap();
        }
        assert_eq!(replayed.rows(), 3_000);
    }
    let all: Vec<usize> = (0..3_000).collect();
    let recall = live_recall(&replayed, &queries, &truths(&rows, &queries, &all), 60);
    assert!(recall >= 0.97, "{recall}");
    // A link to a slot that is taken is refused; a row that is elsewhere stays there.
    let mut foreign = links[0].clone();
    foreign.row = RowId(5_000);
    let refused = replayed.apply_link(&foreign, rows.row(0)).unwrap_err();
    assert!(matches!(refused, UpdateError::Link { .. }), "{refused}");
    foreign = links[0].clone();
    foreign.node = links[1].node;
    replayed.apply_link(&foreign, rows.row(0)).unwrap();
    assert_eq!(replayed.node_of(links[0].row), Some(links[0].node));
    // A row that was deleted after its link does not come back with it.
    replayed.delete(RowId(2_500)).unwrap();
    replayed.apply_link(&links[500], rows.row(2_500)).unwrap();
    assert_eq!((replayed.rows(), replayed.node_of(RowId(2_500))), (2_999, None));
    replayed.checkpoint(9).unwrap();
    for link in links.iter().take(100) {
        replayed.apply_link(link, rows.row(link.row.0 as usize)).unwrap();
    }
    assert_eq!(replayed.pending_bytes(), 0, "what is on disk is not linked again");
    drop(replayed);
    assert_sound(&other.path);
}

#[test]
fn searches_beside_inserts_and_deletes_answer_valid_rows_only() {
    let rows = Rows::clustered(6_000, DIM, 1);
    let queries = Rows::clustered(64, DIM, 2);
    let place = built(&rows, 3_000);
    let index = live(&place.path);
    delete_all(&index, 0..500);
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let (index, rows, queries, done) = (&index, &rows, &queries, &done);
        let writers: Vec<_> = (0..2)
            .map(|part| {
                threads.spawn(move || {
                    insert_all(index, rows, 3_000 + part * 1_500..4_500 + part * 1_500)
                })
            })
            .collect();
        let searchers: Vec<_> = (0..2)
            .map(|_| {
                threads.spawn(move || {
                    let mut answered = 0;
                    while !done.load(Ordering::Relaxed) || answered == 0 {
                        for q in 0..queries.len() {
                            let query = queries.row(q);
                            let hits = index.search(query, &params(30), None).unwrap().hits;
                            assert_eq!(hits.len(), 10);
                            let found = rows_of(&hits);
                            assert!(found.iter().all(|r| (500..6_000).contains(r)), "{found:?}");
                            let exact = |row: u64| {
                                let pairs = rows.row(row as usize).iter().zip(query);
                                pairs
                                    .map(|(a, b)| (f32::from(*a) - f32::from(*b)).powi(2))
                                    .sum::<f32>()
                            };
                            assert!(hits.iter().all(|h| h.distance == exact(h.row.0)));
                            answered += 1;
                        }
                    }
                })
            })
            .collect();
        // Consolidation and a checkpoint in the midst of it.
        consolidate(index);
        index.checkpoint(1).unwrap();
        writers.into_iter().for_each(|w| w.join().unwrap());
        done.store(true, Ordering::Relaxed);
        searchers.into_iter().for_each(|s| s.join().unwrap());
    });
    assert_eq!(index.rows(), 5_500);
    index.checkpoint(2).unwrap();
    drop(index);
    assert_sound(&place.path);
}

#[test]
fn an_index_whose_rows_have_all_gone_starts_anew() {
    let rows = Rows::clustered(400, DIM, 1);
    let place = built(&rows, 200);
    let index = live(&place.path);
    delete_all(&index, 0..200);
    assert!(index.search(rows.row(0), &params(30), None).unwrap().hits.is_empty());
    consolidate(&index);
    index.checkpoint(1).unwrap();
    drop(index);
    let index = live(&place.path);
    assert_eq!(index.rows(), 0);
    insert_all(&index, &rows, 200..400);
    for row in 200..400 {
        let hits = index.search(rows.row(row), &params(200), None).unwrap().hits;
        assert_eq!(hits[0].row, RowId(row as u64));
    }
    consolidate(&index);
    index.checkpoint(2).unwrap();
    for row in 200..400 {
        let hits = index.search(rows.row(row), &params(200), None).unwrap().hits;
        assert_eq!(hits[0].row, RowId(row as u64));
    }
    drop(index);
    assert_sound(&place.path);
}

#[test]
fn disk_stays_small_while_rows_are_replaced() {
    let rows = Rows::clustered(5_000, DIM, 1);
    let queries = Rows::clustered(100, DIM, 2);
    let place = built(&rows, 1_000);
    let fresh_bytes: u64 = read_only(&place.path).manifest().files().iter().map(|f| f.bytes).sum();
    let index = live(&place.path);
    for step in 0..40 {
        let (gone, come) = (step * 100, 1_000 + step * 100);
        delete_all(&index, gone..gone + 100);
        insert_all(&index, &rows, come..come + 100);
        consolidate(&index);
        let report = index.checkpoint(step as u64).unwrap();
        assert!(report.disk_bytes < fresh_bytes * 3 / 2, "step {step}: {fresh_bytes}, {report:?}");
    }
    let on_disk: u64 = ["", "part-0000"]
        .iter()
        .flat_map(|d| std::fs::read_dir(place.path.join(d)).unwrap())
        .map(|e| e.unwrap().metadata().unwrap())
        .filter(|m| m.is_file())
        .map(|m| m.len())
        .sum();
    let named: u64 = read_only(&place.path).manifest().files().iter().map(|f| f.bytes).sum();
    assert!(on_disk < named + 4096, "{on_disk} on disk, {named} in use");
    let alive: Vec<usize> = (4_000..5_000).collect();
    let truth = truths(&rows, &queries, &alive);
    let recall = live_recall(&index, &queries, &truth, 30);
    assert!(recall >= 0.97, "{recall}");
}

#[test]
fn a_directory_that_was_replaced_is_not_written_to() {
    let rows = Rows::clustered(300, DIM, 1);
    let (place, other) = (built(&rows, 200), built(&rows, 100));
    let index = live(&place.path);
    insert_all(&index, &rows, 200..300);
    std::fs::remove_dir_all(&place.path).unwrap();
    std::fs::rename(&other.path, &place.path).unwrap();
    let refused = index.checkpoint(1).unwrap_err();
    assert!(matches!(refused, UpdateError::Replaced { .. }), "{refused}");
    assert_sound(&place.path);
    assert_eq!(read_only(&place.path).rows(), 100);
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let rows = Rows::clustered(300, DIM, 1);
    let place = built(&rows, 200);
    let index = live(&place.path);
    let refused = |row: u64, vector: &[u8]| index.insert(RowId(row), vector).unwrap_err();
    assert!(matches!(refused(7, rows.row(250)), UpdateError::RowExists(RowId(7))));
    let short = refused(250, &[1; 31]);
    let text = "the vector cannot be inserted: query has 31 dimensions, the index has 32";
    assert_eq!(short.to_string(), text);
    assert!(matches!(refused(1 << 40, rows.row(250)), UpdateError::Row { .. }));
    let second = LiveIndex::open(&place.path, Default::default()).err().unwrap();
    let text = second.to_string();
    let holder = format!("by process {}", std::process::id());
    assert!(text.contains("open for writing elsewhere") && text.contains(&holder), "{text}");
    assert_eq!((index.rows(), index.pending_bytes()), (200, 0));
}

#[test]
fn a_full_index_asks_for_a_checkpoint_and_goes_on_after_it() {
    let rows = Rows::clustered(600, DIM, 1);
    let place = built(&rows, 200);
    let open = super::open_options();
    let options = crate::update::LiveOptions { open, fresh_rows: Some(64), ..Default::default() };
    let index = LiveIndex::open(&place.path, options).unwrap();
    let mut row = 200;
    for _ in 0..3 {
        let refused = loop {
            match index.insert(RowId(row as u64), rows.row(row)) {
                Ok(_) => row += 1,
                Err(e) => break e,
            }
        };
        assert!(matches!(refused, UpdateError::Full { .. }), "{refused}");
        index.checkpoint(0).unwrap();
    }
    assert!(row > 300 && index.rows() == row as u64);
    let hits = index.search(rows.row(row - 1), &params(100), None).unwrap().hits;
    assert_eq!(hits[0].row, RowId(row as u64 - 1));
}

#[test]
fn memory_of_changes_is_reserved_and_given_back() {
    let rows = Rows::clustered(8_000, DIM, 1);
    let place = built(&rows, 2_000);
    let accountant = crate::memory::Accountant::new(None);
    let open =
        crate::index::OpenOptions { accountant: accountant.clone(), ..super::open_options() };
    let options = crate::update::LiveOptions { open, ..Default::default() };
    let index = LiveIndex::open(&place.path, options).unwrap();
    accountant.set_limit_bytes(Some(accountant.held_bytes() + (1 << 20)));
    let mut row = 2_000;
    let refused = loop {
        match index.insert(RowId(row as u64), rows.row(row)) {
            Ok(_) => row += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, UpdateError::Memory(_)), "{refused}");
    assert!(row > 2_100, "{row}");
    assert_eq!(index.node_of(RowId(row as u64)), None);
    accountant.set_limit_bytes(None);
    index.checkpoint(1).unwrap();
    assert_eq!(index.rows(), row as u64);
    let held = accountant.held_bytes();
    insert_all(&index, &rows, row..row + 50);
    assert!(accountant.held_bytes() > held);
    drop(index);
    assert_eq!(accountant.held_bytes(), 0);
}
