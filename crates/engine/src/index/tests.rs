//! Tests of opening and searching built indexes.

use std::sync::Arc;

use super::fixture::{Breaking, BuiltIndex};
use super::{Index, OpenError, QueryError};
use crate::io::{Errno, IoError, ReadFault};
use crate::memory::Pool;
use crate::search::{ReadFailure, SearchError, SearchParams};
use crate::types::ErrorClass;

#[test]
fn a_queue_that_broke_under_a_cursor_is_not_used_again() {
    let (built, backend) = (BuiltIndex::of(500), Arc::new(Breaking::default()));
    let index = built.open(&backend);
    index.wait_resident().unwrap();
    let params = SearchParams { k: 10, list: 20, ..SearchParams::default() };
    let mut cursor = index.cursor(built.row(7), &params, None).unwrap();
    assert_eq!(cursor.next(10).unwrap()[0].row.0, 7);
    backend.set_broken(true);
    for _ in 0..2 {
        let error = cursor.next(300).unwrap_err();
        assert!(matches!(error, QueryError::Search(SearchError::Queue(_))), "{error}");
        assert_eq!(error.class(), ErrorClass::Retry, "{error}");
    }
    drop(cursor);
    backend.set_broken(false);
    assert_eq!(index.search(built.row(8), &params, None).unwrap().hits[0].row.0, 8);
}

#[test]
fn a_breakdown_for_want_of_memory_is_to_be_tried_again() {
    let broken =
        |errno| QueryError::from(SearchError::Queue(IoError::Submit { errno: Errno(errno) }));
    assert_eq!(broken(libc::ENOMEM).class(), ErrorClass::Retry);
    assert_eq!(broken(libc::EIO).class(), ErrorClass::Stop);
    let unread = |fault| ReadFailure { why: "codes".to_owned(), fault };
    for (fault, class) in [
        (ReadFault::Damaged, ErrorClass::Stop),
        (ReadFault::Failed, ErrorClass::Stop),
        (ReadFault::Shortage, ErrorClass::Retry),
    ] {
        assert_eq!(QueryError::from(SearchError::Unreadable(unread(fault))).class(), class);
    }
    let (built, backend) = (BuiltIndex::of(100), Arc::new(Breaking::default()));
    let index = built.open(&backend);
    index.wait_resident().unwrap();
    backend.set_broken(true);
    let error = index.search(built.row(7), &SearchParams::default(), None).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Retry, "{error}");
}

#[test]
fn a_directory_that_cannot_be_looked_at_is_not_said_to_hold_no_index() {
    let dir = tempfile::tempdir().unwrap();
    // Where it leads nobody can tell, not even root.
    std::os::unix::fs::symlink("MANIFEST", dir.path().join("MANIFEST")).unwrap();
    let options = super::fixture::open_options(&Arc::new(Breaking::default()));
    let error = Index::open(dir.path(), &options).err().unwrap();
    assert!(matches!(error, OpenError::File { .. }), "{error}");
    std::fs::remove_file(dir.path().join("MANIFEST")).unwrap();
    let error = Index::open(dir.path(), &options).err().unwrap();
    assert!(matches!(error, OpenError::NoIndex(_)), "{error}");
}

#[test]
fn the_memory_of_the_longest_searches_is_within_the_limit_and_is_not_kept() {
    let (built, backend) = (BuiltIndex::of(2_000), Arc::new(Breaking::default()));
    let index = built.open(&backend);
    index.wait_resident().unwrap();
    let accountant = index.accountant();
    let held = accountant.held_bytes();
    let common = SearchParams { k: 10, list: 100, ..SearchParams::default() };
    let longest = SearchParams { list: SearchParams::LIST_MAX, ..common.clone() };
    accountant.set_limit_bytes(Some(held + (1 << 20)));
    index.search(built.row(7), &common, None).unwrap();
    let refused = index.search(built.row(7), &longest, None).unwrap_err();
    assert!(
        matches!(&refused, QueryError::Memory(why) if why.pool == Pool::QueryScratch),
        "{refused}"
    );
    accountant.set_limit_bytes(None);
    assert_eq!(index.search(built.row(7), &longest, None).unwrap().hits[0].row.0, 7);
    assert_eq!(accountant.held_bytes(), held);
    let mut driver = index.take_driver(1).unwrap();
    assert!(driver.state().bytes() < 1 << 20, "{}", driver.state().bytes());
}
