//! Ties, fewer rows, other scales, and files.

use super::*;

fn truth() -> Truth {
    Truth::new(2, 3, vec![1, 2, 3, 4, 5, 6], vec![1.0, 2.0, 2.0, 0.0, 1.0, 5.0])
}

#[test]
fn ties_with_the_last_true_distance_count() {
    let answers = [vec![(1, 1.0), (9, 2.0)], vec![(4, 0.0), (6, 5.0)]];
    assert_eq!(truth().recall(2, &answers), 0.75);
    assert_eq!(truth().recall(1, &answers), 1.0);
}

#[test]
fn queries_with_fewer_rows_are_judged_by_those_and_wrong_rows_are_counted() {
    let ids = vec![1, NO_ROW, NO_ROW, 4, 5, 6, NO_ROW, NO_ROW, NO_ROW];
    let far = f32::INFINITY;
    let distances = vec![1.0, far, far, 0.0, 1.0, 5.0, far, far, far];
    let truth = Truth::new(3, 3, ids, distances);
    let answers = [vec![(1, 1.0)], vec![(4, 0.0), (9, 5.0), (8, 6.0)], vec![]];
    let found = truth.found(3, &answers);
    assert_eq!(found, Compared { expected: 4, correct: 3, wrong: 0 });
    assert_eq!(found.recall(), 0.75);
    let answers = [vec![(1, 1.0), (2, 2.0)], vec![(9, 0.5)], vec![(7, 3.0)]];
    assert_eq!(truth.found(3, &answers), Compared { expected: 4, correct: 1, wrong: 3 });
    assert_eq!(Compared::default().recall(), 1.0);
}

#[test]
fn distances_on_another_scale_do_not_count_as_ties() {
    // Square roots of the true distances: the second row would pass as a tie.
    let answers = [vec![(1, 1.0), (9, 1.5)], vec![(4, 0.0), (6, 2.2)]];
    let mut roots = truth();
    assert!(roots.same_scale(2, &answers));
    assert!(!roots.same_scale(3, &answers));
    roots.distances.clear();
    assert_eq!(roots.recall(2, &answers), 0.5);
}

#[test]
fn files_go_there_and_back_and_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("truth.bin");
    truth().write(&path).unwrap();
    let read = Truth::open(&path).unwrap();
    assert_eq!((read.ids(), &read.distances), (truth().ids(), &truth().distances));
    Truth::new(1, 2, vec![7, 8], Vec::new()).write(&path).unwrap();
    assert!(Truth::open(&path).unwrap().distances.is_empty());
    std::fs::write(&path, [1, 0, 0, 0, 9, 0, 0, 0, 1]).unwrap();
    let error = format!("{:#}", Truth::open(&path).unwrap_err());
    assert!(error.contains("1 queries x 9") && error.contains("truth.bin"), "{error}");
    assert!(truth().check(3, 2).unwrap_err().to_string().contains("2 queries"));
    assert!(truth().check(2, 4).unwrap_err().to_string().contains("too few"));
}
