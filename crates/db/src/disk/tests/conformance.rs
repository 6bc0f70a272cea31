//! What every disk promises, checked the same way for each. A new one joins `every`.

use super::super::*;
use crate::ids::ErrorClass;

/// Runs one check over every disk.
fn every(check: fn(&dyn Disk)) {
    let dir = tempfile::tempdir().unwrap();
    check(&RealDisk::open(dir.path()).unwrap());
    check(&CrashDisk::new());
}

fn put(disk: &dyn Disk, path: &str, bytes: &[u8]) {
    disk.create(path).unwrap().append(bytes).unwrap();
}

fn get(disk: &dyn Disk, path: &str) -> Vec<u8> {
    read_file(disk, path, 1 << 20).unwrap()
}

fn names(disk: &dyn Disk, dir: &str) -> Vec<String> {
    disk.list(dir).unwrap().into_iter().map(|e| e.name).collect()
}

#[test]
fn appended_bytes_are_read_back_at_every_offset() {
    every(|disk| {
        let file = disk.create("f").unwrap();
        let reader = disk.open("f").unwrap();
        assert_eq!(reader.bytes().unwrap(), 0);
        file.append(b"hello ").unwrap();
        file.append(b"").unwrap();
        file.append(b"world").unwrap();
        file.sync().unwrap();
        assert_eq!(reader.bytes().unwrap(), 11);
        for offset in 0..14 {
            let mut into = [0; 4];
            let read = reader.read_at(offset, &mut into).unwrap();
            let expected = b"hello world".get(offset as usize..).unwrap_or(b"");
            assert_eq!(into[..read], expected[..expected.len().min(4)], "at {offset}");
        }
    });
}

#[test]
fn room_that_is_kept_is_not_seen() {
    every(|disk| {
        let file = disk.create("f").unwrap();
        file.reserve(0).unwrap();
        file.append(b"one").unwrap();
        file.reserve(100_000).unwrap();
        assert_eq!((get(disk, "f"), disk.list("").unwrap()[0].bytes), (b"one".to_vec(), 3));
        file.append(b"two").unwrap();
        file.sync().unwrap();
        file.reserve(10).unwrap();
        file.give_back();
        assert_eq!(get(disk, "f"), b"onetwo");
        file.append(b"three").unwrap();
        assert_eq!(get(disk, "f"), b"onetwothree");
    });
}

#[test]
fn a_name_is_created_once() {
    every(|disk| {
        put(disk, "f", b"first");
        let again = disk.create("f").unwrap_err();
        assert!(matches!(again, DiskError::Exists { action: Action::Create, .. }), "{again}");
        assert_eq!(get(disk, "f"), b"first");
        disk.create_dir("d").unwrap();
        disk.create_dir("d").unwrap();
        assert!(matches!(disk.create_dir("f").unwrap_err(), DiskError::Exists { .. }));
        assert!(matches!(disk.create("d").unwrap_err(), DiskError::Exists { .. }));
    });
}

#[test]
fn a_directory_is_renamed_with_all_that_is_in_it() {
    every(|disk| {
        disk.create_dir("d").unwrap();
        disk.create_dir("d/e").unwrap();
        disk.create_dir("full").unwrap();
        put(disk, "d/e/f", b"inner");
        put(disk, "full/f", b"other");
        assert!(disk.rename("d", "full").is_err(), "nothing is replaced by a directory");
        disk.rename("d", "new").unwrap();
        disk.sync_dir("").unwrap();
        assert_eq!(
            (names(disk, ""), names(disk, "new/e")),
            (vec!["full".into(), "new".into()], vec!["f".into()])
        );
        assert_eq!(
            (get(disk, "new/e/f"), get(disk, "full/f")),
            (b"inner".to_vec(), b"other".to_vec())
        );
        assert!(disk.list("d").unwrap_err().is_not_found());
    });
}

#[test]
fn what_is_missing_is_named() {
    every(|disk| {
        let all = [
            disk.open("no").map(drop).unwrap_err(),
            disk.create("no/f").map(drop).unwrap_err(),
            disk.create_dir("no/d").unwrap_err(),
            disk.rename("no", "f").unwrap_err(),
            disk.remove("no").unwrap_err(),
            disk.remove_dir("no").unwrap_err(),
            disk.sync_dir("no").unwrap_err(),
            disk.list("no").map(drop).unwrap_err(),
        ];
        for error in all {
            assert!(error.is_not_found(), "{error}");
            assert!(error.to_string().contains("no"), "{error}");
            assert_eq!(error.class(), ErrorClass::Stop);
        }
    });
}

#[test]
fn rename_replaces_and_open_files_stay_readable() {
    every(|disk| {
        put(disk, "old", b"old");
        put(disk, "new", b"new");
        let reader = disk.open("old").unwrap();
        disk.rename("new", "old").unwrap();
        disk.sync_dir("").unwrap();
        assert_eq!((get(disk, "old"), names(disk, "")), (b"new".to_vec(), vec!["old".into()]));
        let removed = disk.open("old").unwrap();
        disk.remove("old").unwrap();
        for (file, expected) in [(&reader, b"old"), (&removed, b"new")] {
            let mut into = [0; 8];
            assert_eq!(file.read_at(0, &mut into).unwrap(), 3);
            assert_eq!(&into[..3], expected);
        }
    });
}

#[test]
fn a_file_is_appended_to_under_its_new_name() {
    every(|disk| {
        let file = disk.create("a.tmp").unwrap();
        file.append(b"1").unwrap();
        disk.rename("a.tmp", "a").unwrap();
        file.append(b"2").unwrap();
        file.sync().unwrap();
        assert_eq!(get(disk, "a"), b"12");
    });
}

#[test]
fn directories_hold_files_and_are_listed_by_name() {
    every(|disk| {
        disk.create_dir("d").unwrap();
        disk.create_dir("d/e").unwrap();
        put(disk, "d/b", b"22");
        put(disk, "d/a", b"1");
        put(disk, "d/e/f", b"333");
        disk.sync_dir("d").unwrap();
        let entry = |name: &str, bytes, is_dir| DirectoryEntry { name: name.into(), bytes, is_dir };
        let expected = [entry("a", 1, false), entry("b", 2, false), entry("e", 0, true)];
        assert_eq!(disk.list("d").unwrap(), expected);
        assert_eq!(names(disk, ""), ["d"]);
        disk.remove_dir("d").expect_err("it is not empty");
        disk.remove("d/e/f").unwrap();
        disk.remove_dir("d/e").unwrap();
        assert_eq!(names(disk, "d"), ["a", "b"]);
    });
}

#[test]
fn paths_that_leave_the_tree_are_refused() {
    every(|disk| {
        for path in ["/etc/passwd", "../f", "d/../../f", ".", "a//b", "a/", "a b", "a\0b"] {
            let refused = disk.create(path).map(drop).unwrap_err();
            assert!(matches!(refused, DiskError::Path { .. }), "{path}: {refused}");
            assert!(matches!(disk.rename("f", path), Err(DiskError::Path { .. })), "{path}");
            assert!(matches!(disk.list(path), Err(DiskError::Path { .. })), "{path}");
        }
        assert!(matches!(disk.open(""), Err(DiskError::Path { .. })));
    });
}

#[test]
fn a_file_is_replaced_whole() {
    every(|disk| {
        disk.create_dir("d").unwrap();
        put(disk, "d/f.tmp", b"left by a crash");
        replace_file(disk, "d/f", b"one").unwrap();
        replace_file(disk, "d/f", b"two").unwrap();
        assert_eq!((get(disk, "d/f"), names(disk, "d")), (b"two".to_vec(), vec!["f".into()]));
        let large = read_file(disk, "d/f", 2).unwrap_err();
        assert!(matches!(large, DiskError::TooLarge { limit: 2, found: 3, .. }), "{large}");
    });
}

#[test]
fn free_space_is_told() {
    every(|disk| assert!(disk.available_bytes().unwrap() > 0));
}

#[test]
fn a_tree_is_removed_whole_and_what_stands_beside_it_stays() {
    every(|disk| {
        disk.create_dir("gone").unwrap();
        disk.create_dir("gone/inner").unwrap();
        put(disk, "gone/f", b"1");
        put(disk, "gone/inner/g", b"2");
        put(disk, "stays", b"3");
        for _ in 0..2 {
            remove_tree(disk, "gone").unwrap();
            assert_eq!(names(disk, ""), ["stays"]);
        }
    });
}
