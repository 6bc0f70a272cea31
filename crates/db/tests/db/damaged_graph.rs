//! A graph whose pages are damaged while it is searched.

use std::path::Path;

use pipeann_db::catalog::IndexState;

use crate::data::open;
use crate::graph::{built, compare};

/// Changes every page of every graph on disk.
fn damage_pages(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            damage_pages(&path);
        } else if name.starts_with("segment-") && dir.ends_with("part-0000") {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.iter_mut().for_each(|byte| *byte ^= 1);
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

#[test]
fn a_graph_that_searches_find_damaged_is_built_anew_and_all_answers_are_right() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let (c, model) = built(&database, 600);
    c.flush().unwrap();
    damage_pages(dir.path());
    compare(&c, &model);
    let status = c.wait_for_index("graph").unwrap();
    assert_eq!((status.state, status.linked), (IndexState::Finished { rows: 600 }, 600));
    compare(&c, &model);
    assert_eq!(c.verify().unwrap(), []);
}
