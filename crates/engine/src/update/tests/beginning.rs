//! Graphs whose rows have all gone begin anew with those that come.

use std::sync::Barrier;

use super::{Rows, built, delete_all, live, params, rows_of};
use crate::types::RowId;

#[test]
fn rows_that_come_first_at_once_are_all_found() {
    let rows = Rows::clustered(800, 16, 1);
    let place = built(&rows, 100);
    let index = live(&place.path);
    delete_all(&index, 0..100);
    for first in (100..800).step_by(2) {
        let start = Barrier::new(2);
        std::thread::scope(|threads| {
            for row in first..first + 2 {
                let (index, rows, start) = (&index, &rows, &start);
                threads.spawn(move || {
                    start.wait();
                    index.insert(RowId(row as u64), rows.row(row)).unwrap();
                });
            }
        });
        for row in first..first + 2 {
            let hits = index.search(rows.row(row), &params(100), None).unwrap().hits;
            let found = rows_of(&hits);
            assert!(found.contains(&(row as u64)), "row {row} of two: {found:?}");
        }
        delete_all(&index, first..first + 2);
    }
}
