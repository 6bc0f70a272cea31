//! The simulated power cut: what is lost, what is kept, what is torn, and the faults.

use std::collections::HashSet;

use super::super::*;

fn bytes(disk: &CrashDisk, path: &str) -> Option<Vec<u8>> {
    disk.files().remove(path)
}

#[test]
fn unsynced_bytes_and_names_are_dropped_or_kept() {
    let disk = CrashDisk::new();
    let file = disk.create("f").unwrap();
    file.append(b"synced").unwrap();
    file.sync().unwrap();
    assert_eq!(bytes(&disk.after(PowerCut::Drop), "f"), None, "the name was not synced");
    disk.sync_dir("").unwrap();
    file.append(b" not").unwrap();
    assert_eq!(bytes(&disk.after(PowerCut::Drop), "f").unwrap(), b"synced");
    assert_eq!(bytes(&disk.after(PowerCut::Keep), "f").unwrap(), b"synced not");
    disk.rename("f", "g").unwrap();
    assert_eq!(disk.after(PowerCut::Drop).files().into_keys().collect::<Vec<_>>(), ["f"]);
    assert_eq!(disk.after(PowerCut::Keep).files().into_keys().collect::<Vec<_>>(), ["g"]);
    disk.sync_dir("").unwrap();
    disk.remove("g").unwrap();
    assert!(bytes(&disk, "g").is_none());
    assert_eq!(bytes(&disk.after(PowerCut::Drop), "g").unwrap(), b"synced");
}

#[test]
fn a_renamed_directory_is_under_one_name_or_the_other() {
    let disk = CrashDisk::new();
    disk.create_dir("d").unwrap();
    disk.create("d/f").unwrap();
    disk.sync_dir("d").unwrap();
    disk.sync_dir("").unwrap();
    disk.create("d/unsynced").unwrap();
    disk.rename("d", "e").unwrap();
    let after = |cut| disk.after(cut).files().into_keys().collect::<Vec<_>>();
    assert_eq!(after(PowerCut::Drop), ["d/f"]);
    assert_eq!(after(PowerCut::Keep), ["e/f", "e/unsynced"]);
    disk.sync_dir("e").unwrap();
    assert_eq!(after(PowerCut::Drop), ["d/f"], "its name stands in another directory");
    disk.sync_dir("").unwrap();
    assert_eq!(after(PowerCut::Drop), ["e/f"], "what is in it has to be synced under its own name");
}

#[test]
fn a_torn_file_keeps_what_was_synced_and_any_part_of_the_rest() {
    let disk = CrashDisk::new();
    let file = disk.create("f").unwrap();
    disk.sync_dir("").unwrap();
    file.append(&[1; 700]).unwrap();
    file.sync().unwrap();
    file.append(&[2; 6000]).unwrap();
    let mut lengths = HashSet::new();
    let (mut holes, mut rubbish) = (0, 0);
    for seed in 0..200 {
        let torn = bytes(&disk.after(PowerCut::Torn(seed)), "f").unwrap();
        assert_eq!(torn[..700], [1; 700], "seed {seed}");
        assert!(torn.len() <= 6700, "seed {seed}");
        let rest = &torn[700..];
        holes += usize::from(rest.windows(2).any(|w| w == [0, 2]));
        rubbish += usize::from(rest.iter().any(|b| ![0, 2].contains(b)));
        lengths.insert(torn.len());
        assert_eq!(bytes(&disk.after(PowerCut::Torn(seed)), "f").unwrap(), torn, "seed {seed}");
    }
    assert!(lengths.len() > 50 && lengths.contains(&6700), "{lengths:?}");
    assert!(holes > 10 && rubbish > 10, "{holes} with holes, {rubbish} with rubbish");
}

#[test]
fn a_lost_directory_takes_its_files_along() {
    let disk = CrashDisk::new();
    disk.create_dir("d").unwrap();
    disk.create("d/f").unwrap();
    disk.sync_dir("d").unwrap();
    assert!(disk.after(PowerCut::Drop).files().is_empty());
    disk.sync_dir("").unwrap();
    assert!(bytes(&disk.after(PowerCut::Drop), "d/f").is_some());
}

#[test]
fn bytes_of_a_failed_sync_do_not_come_with_the_next() {
    let disk = CrashDisk::new();
    let file = disk.create("f").unwrap();
    disk.sync_dir("").unwrap();
    file.append(&[1; 5000]).unwrap();
    disk.inject(PlannedFault { operation: disk.operations() + 1, kind: FaultKind::Io });
    file.sync().unwrap_err();
    file.append(&[2; 4000]).unwrap();
    file.sync().unwrap();
    assert_eq!(bytes(&disk, "f").unwrap()[..5000], [1; 5000], "a process sees what it wrote");
    let after = bytes(&disk.after(PowerCut::Drop), "f").unwrap();
    assert_eq!(after[..4096], [0; 4096], "this page was never written back");
    assert_eq!((after[4096..5000].to_vec(), after[5000..].to_vec()), (vec![1; 904], vec![2; 4000]));
}

#[test]
fn an_operation_fails_once_and_as_asked() {
    let kinds = [FaultKind::Io, FaultKind::NoSpace, FaultKind::ShortWrite];
    for (kind, left) in kinds.into_iter().zip([0, 5, 5]) {
        let disk = CrashDisk::new();
        let file = disk.create("f").unwrap();
        disk.inject(PlannedFault { operation: 2, kind });
        let error = file.append(&[7; 10]).unwrap_err();
        let full = matches!(error, DiskError::NoSpace { .. });
        assert_eq!(full, kind == FaultKind::NoSpace, "{error}");
        assert_eq!(bytes(&disk, "f").unwrap().len(), left, "{kind:?}");
        file.append(&[7; 10]).unwrap();
        assert_eq!(disk.operations(), 3);
    }
}

#[test]
fn after_the_power_went_nothing_works() {
    let disk = CrashDisk::new();
    let file = disk.create("f").unwrap();
    disk.inject(PlannedFault { operation: 2, kind: FaultKind::PowerOff });
    file.append(b"x").unwrap_err();
    file.append(b"y").unwrap_err();
    disk.create("g").unwrap_err();
    assert!(disk.list("").is_err() && disk.open("f").is_err());
    let after = disk.after(PowerCut::Keep);
    assert_eq!(bytes(&after, "f").unwrap(), b"x", "it may have happened");
    after.create("g").unwrap();
}

#[test]
fn a_full_disk_takes_what_fits() {
    let disk = CrashDisk::with_capacity(10);
    let file = disk.create("f").unwrap();
    file.append(&[1; 8]).unwrap();
    assert!(matches!(file.append(&[2; 8]), Err(DiskError::NoSpace { .. })));
    assert_eq!(bytes(&disk, "f").unwrap(), [1, 1, 1, 1, 1, 1, 1, 1, 2, 2]);
    assert_eq!(disk.available_bytes().unwrap(), 0);
    disk.remove("f").unwrap();
    assert_eq!(disk.available_bytes().unwrap(), 10);
}

#[test]
fn room_that_is_kept_is_nobody_elses() {
    let disk = CrashDisk::with_capacity(10);
    let (file, other) = (disk.create("f").unwrap(), disk.create("g").unwrap());
    file.append(&[1; 2]).unwrap();
    let full = file.reserve(9).unwrap_err();
    assert!(matches!(full, DiskError::NoSpace { action: Action::Reserve, .. }), "{full}");
    assert_eq!(disk.available_bytes().unwrap(), 8, "nothing is kept of what does not fit");
    file.reserve(6).unwrap();
    file.reserve(3).unwrap();
    assert_eq!(disk.available_bytes().unwrap(), 2);
    other.append(&[2; 2]).unwrap();
    assert!(matches!(other.append(&[2]), Err(DiskError::NoSpace { .. })));
    file.append(&[3; 6]).unwrap();
    assert!(matches!(file.append(&[3]), Err(DiskError::NoSpace { .. })));
    assert_eq!(bytes(&disk, "f").unwrap(), [1, 1, 3, 3, 3, 3, 3, 3]);
    disk.remove("g").unwrap();
    file.reserve(2).unwrap();
    assert_eq!(disk.available_bytes().unwrap(), 0);
    file.give_back();
    assert_eq!(disk.available_bytes().unwrap(), 2);
}

#[test]
fn replacing_a_file_survives_a_power_cut_at_every_operation() {
    let mut outcomes = HashSet::new();
    for operation in 6.. {
        let disk = CrashDisk::new();
        replace_file(&disk, "f", b"old").unwrap();
        assert_eq!(disk.operations(), 6, "remove, create, append, sync, rename, sync");
        disk.inject(PlannedFault { operation, kind: FaultKind::PowerOff });
        let replaced = replace_file(&disk, "f", b"new");
        for cut in (0..20).map(PowerCut::Torn).chain([PowerCut::Drop, PowerCut::Keep]) {
            let found = bytes(&disk.after(cut), "f").unwrap();
            assert!(found == b"old" || found == b"new", "operation {operation}, {cut:?}");
            assert!(replaced.is_err() || found == b"new", "operation {operation}, {cut:?}");
            outcomes.insert(found);
        }
        if replaced.is_ok() && operation > 6 {
            break;
        }
    }
    assert_eq!(outcomes.len(), 2, "some cuts come before, some after");
}
