//! The directory lock, and what it says of its holder.

use std::os::unix::fs::PermissionsExt;

use super::super::*;
use crate::ids::ErrorClass;

fn holder(since_unix_s: u64) -> Holder {
    Holder::this_process(since_unix_s)
}

#[test]
fn a_second_writer_is_told_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let first = DirectoryLock::take(dir.path(), &holder(1_795_262_400)).unwrap();
    let refused = DirectoryLock::take(dir.path(), &holder(2)).unwrap_err();
    let LockError::Held { holder: Some(found), .. } = &refused else { panic!("{refused}") };
    assert_eq!(*found, holder(1_795_262_400));
    assert_eq!(refused.class(), ErrorClass::Retry);
    let (message, pid) = (refused.to_string(), std::process::id());
    assert!(message.contains(&format!("process {pid} on {}", found.host)), "{message}");
    assert!(message.contains("since 2026-11-21 12:00:00 UTC"), "{message}");
    drop(first);
    DirectoryLock::take(dir.path(), &holder(3)).unwrap();
}

#[test]
fn times_are_shown_in_utc() {
    let shown = [
        (0, "1970-01-01 00:00:00"),
        (951_782_399, "2000-02-28 23:59:59"),
        (951_782_400, "2000-02-29 00:00:00"),
        (951_868_800, "2000-03-01 00:00:00"),
        (4_107_542_399, "2100-02-28 23:59:59"),
        (4_107_542_400, "2100-03-01 00:00:00"),
    ];
    for (since_unix_s, expected) in shown {
        let text = holder(since_unix_s).to_string();
        assert!(text.ends_with(&format!("since {expected} UTC")), "{text}");
    }
}

#[test]
fn a_lock_that_is_removed_or_replaced_is_lost_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOCK_NAME);
    let kept = dir.path().join("kept");
    let lock = std::sync::Arc::new(DirectoryLock::take(dir.path(), &holder(1)).unwrap());
    let real = std::sync::Arc::new(RealDisk::open(dir.path()).unwrap());
    let disk = GuardedDisk::new(real, &lock);
    let file = disk.create("log").unwrap();
    file.append(b"before").unwrap();
    file.sync().unwrap();
    std::fs::rename(&path, &kept).unwrap();
    // Another process finds the directory free.
    let other = DirectoryLock::take(dir.path(), &holder(2)).unwrap();
    let lost = |e: DiskError| matches!(e, DiskError::LockLost { .. });
    assert!(lost(file.append(b"after").unwrap_err()));
    assert!(lost(file.sync().unwrap_err()));
    assert!(lost(disk.create("another").unwrap_err()));
    assert!(lost(disk.rename("log", "moved").unwrap_err()));
    assert!(lost(disk.remove("log").unwrap_err()));
    assert!(lost(disk.sync_dir("").unwrap_err()));
    let told = disk.check().unwrap_err();
    assert_eq!(told.class(), ErrorClass::Stop);
    assert!(told.to_string().contains("was removed while this process held it"), "{told}");
    assert_eq!(std::fs::read(dir.path().join("log")).unwrap(), b"before");
    // That it comes back does not undo what may have been written meanwhile.
    drop(other);
    std::fs::rename(&kept, &path).unwrap();
    assert!(lost(disk.check().unwrap_err()));
}

#[test]
fn an_unreadable_note_does_not_hide_that_the_directory_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let _held = DirectoryLock::take(dir.path(), &holder(1)).unwrap();
    for note in ["", "pid 1\nhost h\nsince 2", "pid x\nhost h\nsince 2\n", "\u{fffd}\0"] {
        std::fs::write(dir.path().join(LOCK_NAME), note).unwrap();
        let refused = DirectoryLock::take(dir.path(), &holder(2)).unwrap_err();
        assert!(matches!(refused, LockError::Held { holder: None, .. }), "{note:?}: {refused}");
        assert!(refused.to_string().contains("another process"), "{refused}");
    }
}

#[test]
fn what_a_killed_holder_left_does_not_lock() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!("pid 1\nhost {}\nsince 2\n", "h".repeat(500));
    std::fs::write(dir.path().join(LOCK_NAME), long).unwrap();
    let _held = DirectoryLock::take(dir.path(), &holder(7)).unwrap();
    let refused = DirectoryLock::take(dir.path(), &holder(8)).unwrap_err();
    assert!(matches!(refused, LockError::Held { holder: Some(found), .. } if found == holder(7)));
}

#[test]
fn a_lock_file_that_cannot_be_opened_is_an_error_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(LOCK_NAME)).unwrap();
    let refused = DirectoryLock::take(dir.path(), &holder(1)).unwrap_err();
    assert!(matches!(&refused, LockError::Disk(_)), "{refused}");
    assert!(refused.to_string().contains(LOCK_NAME), "{refused}");
    let missing = DirectoryLock::take(&dir.path().join("no"), &holder(1)).unwrap_err();
    assert!(matches!(&missing, LockError::Disk(e) if e.is_not_found()), "{missing}");
}

#[test]
fn a_directory_without_permission_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    match disk.create("f") {
        Ok(_) => eprintln!("permissions are not checked here: this user may write everywhere"),
        Err(refused) => {
            assert!(matches!(&refused, DiskError::Permission { .. }), "{refused}");
            assert_eq!(refused.class(), ErrorClass::FixInput);
        }
    }
}
