//! Users, roles and grants on a disk.

use std::sync::Arc;

use super::*;
use crate::disk::{CrashDisk, FaultKind, PlannedFault, PowerCut, RealDisk};
use crate::replication::{LogStanding, MemoryLog};

const FIRST: &str = "Milvus";

fn open(dir: &std::path::Path) -> Result<Access, AccessError> {
    Access::open(Arc::new(RealDisk::open(dir).unwrap()), true, Accountant::new(None))
}

fn is_right(access: &Access, user: &str, password: &str, initial: &str) -> bool {
    access.authenticates(user, password, initial) == Proof::Right
}

fn grant(object: &str, privilege: &str, database: &str) -> Grant {
    let text = str::to_owned;
    Grant {
        kind: text("Collection"),
        object: text(object),
        privilege: text(privilege),
        database: text(database),
    }
}

#[test]
fn users_and_passwords_survive_and_are_not_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let access = open(dir.path()).unwrap();
    assert!(is_right(&access, ROOT, FIRST, FIRST));
    assert!(!is_right(&access, ROOT, "milvus", FIRST));
    access.create_user("ada", "secret-1").unwrap();
    access.set_password(ROOT, Some((FIRST, FIRST)), "another").unwrap();
    let error = access.set_password("ada", Some(("secret-2", FIRST)), "secret-3").unwrap_err();
    assert!(matches!(error, AccessError::WrongPassword { .. }));
    drop(access);
    let file = std::fs::read(dir.path().join(ACCESS_FILE)).unwrap();
    assert!(!String::from_utf8_lossy(&file).contains("secret"));
    let access = open(dir.path()).unwrap();
    assert_eq!(access.users(), ["ada", "root"]);
    // Once by the slow way, once remembered.
    for _ in 0..2 {
        assert!(is_right(&access, "ada", "secret-1", FIRST));
        assert!(!is_right(&access, "ada", "secret-2", FIRST));
        assert!(!is_right(&access, "ada", FIRST, FIRST));
        assert!(!is_right(&access, "eve", "secret-1", FIRST));
        assert!(!is_right(&access, ROOT, FIRST, FIRST), "it has another one");
    }
    access.set_password("ada", None, "secret-4").unwrap();
    assert!(!is_right(&access, "ada", "secret-1", FIRST), "what was remembered is forgotten");
    access.drop_user("ada").unwrap();
    assert!(!is_right(&access, "ada", "secret-4", FIRST));
}

#[test]
fn roles_may_do_what_was_granted_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let access = open(dir.path()).unwrap();
    access.create_user("ada", "secret-1").unwrap();
    access.create_role("reader", "reads").unwrap();
    access.set_role("ada", "reader", true).unwrap();
    let may = |access: &Access, wanted: &Grant| access.allows("ada", wanted, &["ReadOnly"]);
    let search = grant("c", "Search", "default");
    assert!(access.allows(ROOT, &search, &[]) && !may(&access, &search));
    access.set_grant("reader", search.clone(), ROOT, true).unwrap();
    let access = open(dir.path()).unwrap();
    assert!(may(&access, &search));
    for other in ["d", "*"] {
        assert!(!may(&access, &grant(other, "Search", "default")), "{other}");
    }
    assert!(!may(&access, &grant("c", "Search", "other")));
    assert!(!may(&access, &grant("c", "Insert", "default")));
    access.set_grant("reader", search.clone(), ROOT, false).unwrap();
    assert!(!may(&access, &search));
    // By a group that the door knows, by one that was made, and by the role of everybody.
    access.set_grant("reader", grant(ANY, "ReadOnly", ANY), ROOT, true).unwrap();
    assert!(may(&access, &search) && may(&access, &grant("d", "Query", "other")));
    assert!(access.drop_role("reader", false).is_err(), "it has a grant");
    access.drop_role("reader", true).unwrap();
    assert!(!may(&access, &search));
    access.create_group("finders").unwrap();
    access.set_group("finders", &["Search".to_owned()], true).unwrap();
    access.set_grant(PUBLIC, grant("c", "finders", "default"), ROOT, true).unwrap();
    assert!(may(&access, &search) && !access.allows("eve", &search, &[]));
    assert!(access.drop_group("finders").is_err());
}

#[test]
fn what_is_always_there_stays_and_bad_names_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let access = open(dir.path()).unwrap();
    assert!(access.drop_user(ROOT).is_err());
    assert!(access.set_role(ROOT, ADMIN, false).is_err());
    assert!(access.drop_role(PUBLIC, true).is_err() && access.drop_role(ADMIN, true).is_err());
    for name in ["", "1a", "-a", ".a", "$a", "a b", "a:b", "ä", &"a".repeat(256)] {
        assert!(access.create_user(name, "secret-1").is_err(), "{name}");
        assert!(access.create_role(name, "").is_err(), "{name}");
        assert!(access.create_group(name).is_err(), "{name}");
    }
    for (name, user, role) in [("a.b", true, false), ("a-b", true, true), ("a$b", false, true)] {
        assert_eq!(access.create_user(name, "secret-1").is_ok(), user, "{name}");
        assert_eq!(access.create_role(name, "").is_ok(), role, "{name}");
        assert!(access.create_group(name).is_err(), "{name}");
        access.drop_user(name).unwrap();
    }
    assert_eq!(
        access.create_role("a.b", "").unwrap_err().to_string(),
        "invalid role name `a.b`: 1 to 255 letters, digits, underscores, `$`, `-`, the first one a \
         letter or an underscore"
    );
    assert!(access.create_user("ada", "short").is_err());
    assert!(access.create_user("ada", &"a".repeat(73)).is_err());
    assert!(access.set_role("ada", ADMIN, true).is_err(), "there is no such user");
    assert!(access.set_role(ROOT, "none", true).is_err());
    assert_eq!(access.users(), [ROOT]);
}

#[test]
fn a_damaged_file_lets_nobody_in() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().create_user("ada", "secret-1").unwrap();
    let path = dir.path().join(ACCESS_FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(matches!(open(dir.path()), Err(AccessError::Damaged { .. })));
}

#[test]
fn proofs_need_the_memory_of_one_and_who_was_right_before_needs_none() {
    let dir = tempfile::tempdir().unwrap();
    let accountant = Accountant::new(None);
    let disk = Arc::new(RealDisk::open(dir.path()).unwrap());
    let access = Access::open(disk, true, Arc::clone(&accountant)).unwrap();
    access.create_user("ada", "secret-1").unwrap();
    let try_it = |user: &str, password: &str| access.authenticates(user, password, FIRST);
    assert!(!access.knows("ada", "secret-1"));
    assert_eq!(try_it("ada", "secret-1"), Proof::Right);
    assert!(access.knows("ada", "secret-1") && !access.knows("ada", "secret-2"));
    // Of one that is not there, too.
    for user in ["ada", "eve"] {
        (0..6).for_each(|_| assert_eq!(try_it(user, "wrong"), Proof::Wrong));
    }
    assert_eq!(try_it("ada", "secret-1"), Proof::Right, "it is known");
    assert_eq!(access.refused(), RefusedPasswords { wrong: 12, busy: 0 });
    // One after the other they need the memory of one.
    assert_eq!(accountant.held_bytes(), 19 << 20);
    // A first password takes a proof, and is known afterwards like any other.
    assert!(!access.knows(ROOT, FIRST));
    assert_eq!(try_it(ROOT, FIRST), Proof::Right);
    assert!(access.knows(ROOT, FIRST));
    access.set_password(ROOT, Some((FIRST, FIRST)), "another").unwrap();
    assert!(!access.knows(ROOT, FIRST), "it has another one");
}

#[test]
fn who_was_right_is_known_whatever_becomes_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let access = open(dir.path()).unwrap();
    access.create_user("ada", "secret-1").unwrap();
    for (user, password) in [("ada", "secret-1"), (ROOT, FIRST)] {
        assert!(is_right(&access, user, password, FIRST));
    }
    access.create_user("bob", "secret-2").unwrap();
    access.create_role("reader", "").unwrap();
    access.set_grant("reader", grant("c", "Search", "default"), ROOT, true).unwrap();
    access.set_role("ada", "reader", true).unwrap();
    access.describe_user("ada", "counts").unwrap();
    let shared = std::fs::read(dir.path().join(ACCESS_FILE)).unwrap();
    access.drop_role("reader", true).unwrap();
    access.follow(&shared).unwrap();
    assert!(access.knows("ada", "secret-1") && access.knows(ROOT, FIRST));
    // The same password again has another salt.
    access.set_password("ada", None, "secret-1").unwrap();
    assert!(!access.knows("ada", "secret-1") && access.knows(ROOT, FIRST));
    assert!(is_right(&access, "ada", "secret-1", FIRST));
    access.drop_user("ada").unwrap();
    assert!(!access.knows("ada", "secret-1"));
    access.create_user("ada", "secret-1").unwrap();
    assert!(!access.knows("ada", "secret-1"), "of another user of that name");
}

#[test]
fn what_another_one_proved_in_the_meantime_is_not_proved_again() {
    let dir = tempfile::tempdir().unwrap();
    let access = open(dir.path()).unwrap();
    access.create_user("ada", "secret-1").unwrap();
    let hash = access.state().users["ada"].password.clone().unwrap();
    let seats = access.provers.seats_in_all();
    let barrier = || std::sync::Barrier::new(seats + 1);
    let (begun, end) = (barrier(), barrier());
    for (user, hash) in [("ada", hash.as_str()), (ROOT, INITIAL)] {
        std::thread::scope(|s| {
            for _ in 0..seats {
                s.spawn(|| {
                    access.provers.run(ProofSource::default(), 1, |_| {
                        begun.wait();
                        end.wait();
                    })
                });
            }
            begun.wait();
            let waits = s.spawn(|| access.authenticates(user, "no proof of it", FIRST));
            while access.provers.waiting() == 0 {
                std::thread::yield_now();
            }
            access.verified.remember(user, hash, "no proof of it");
            end.wait();
            assert_eq!(waits.join().unwrap(), Proof::Right, "{user}");
        });
    }
}

#[test]
fn a_right_is_taken_under_whichever_kind_it_was_granted() {
    let dir = tempfile::tempdir().unwrap();
    let access = open(dir.path()).unwrap();
    access.create_user("ada", "secret-1").unwrap();
    access.create_role("reader", "").unwrap();
    access.set_role("ada", "reader", true).unwrap();
    let of_kind = |kind: &str, privilege: &str| Grant {
        kind: kind.to_owned(),
        ..grant(ANY, privilege, "default")
    };
    let may = |privilege: &str| access.allows("ada", &grant("c", privilege, "default"), &[]);
    for kind in ["Global", "Collection"] {
        access.set_grant("reader", of_kind(kind, "Search"), ROOT, true).unwrap();
    }
    assert!(may("Search"));
    access.set_grant("reader", grant(ANY, "Search", "other"), ROOT, false).unwrap();
    access.set_grant("reader", grant("c", "Search", "default"), ROOT, false).unwrap();
    assert!(may("Search"), "of another database, and of another object");
    access.set_grant("reader", of_kind("Collection", "Search"), ROOT, false).unwrap();
    assert!(!may("Search"));
    // Of all that is on a kind of objects.
    for kind in ["Collection", "User"] {
        access.set_grant("reader", of_kind(kind, ANY), ROOT, true).unwrap();
    }
    access.set_grant("reader", of_kind("User", ANY), ROOT, false).unwrap();
    assert!(may("Search"));
    access.set_grant("reader", of_kind(ANY, ANY), ROOT, false).unwrap();
    assert!(!may("Search") && access.grants("reader").unwrap().is_empty());
    assert!(access.take_grants(ADMIN, |_| true).is_err());
}

#[test]
fn what_the_shared_log_has_counts_though_the_disk_is_full() {
    let disk = CrashDisk::new();
    let (log, leadership) = (MemoryLog::default(), Arc::new(Leadership::default()));
    let open = |disk: &CrashDisk| {
        let access = Access::open(Arc::new(disk.clone()), true, Accountant::new(None)).unwrap();
        access.shared_by(Arc::clone(&leadership))
    };
    let access = open(&disk);
    leadership.set(LogStanding::Leads(log.lead().0));
    let full = || {
        let operation = disk.operations() + 2;
        disk.inject(PlannedFault { operation, kind: FaultKind::NoSpace });
    };
    full();
    access.create_user("one", "Password1").unwrap();
    assert!(access.users().contains(&"one".to_owned()), "others have it, so it is shown here too");
    full();
    access.settle().unwrap_err();
    access.settle().unwrap();
    access.create_user("two", "Password1").unwrap();
    assert_eq!(open(&disk.after(PowerCut::Drop)).users(), access.users());
    assert_eq!(log.len(), 2);
}
