//! Copying once: what is written when, what is found again, what is given up.

use pipeann_raw::sim::{Power, SimDevOptions};
use pipeann_raw::{CopyError, Store};

use crate::rig::{Index, Rig, content, read};

const SIZE: u64 = 1_300_000;

fn copy(
    store: &Store,
    segment: &pipeann_raw::CopiedSegment,
) -> std::sync::Arc<pipeann_raw::Region> {
    store.copy(segment, &mut |_| ()).expect("room, and no fault")
}

#[test]
fn a_copy_is_read_back_over_any_number_of_devices_and_block_sizes() {
    for (devices, lba_bytes) in [(1, 512), (2, 4096), (3, 512), (5, 512)] {
        let rig = Rig::claimed(devices, &SimDevOptions { lba_bytes, ..SimDevOptions::default() });
        let index = Index::new(1);
        let store = rig.store().unwrap();
        let segment = index.segment("segment-000000.pages", SIZE, 5, 1);
        let mut told = Vec::new();
        let region = store.copy(&segment, &mut |bytes| told.push(bytes)).unwrap();
        assert_eq!(told.last(), Some(&SIZE));
        assert_eq!(region.bytes, SIZE);
        let (from, length) = (100 * 4096, 50 * 4096);
        let got = read(&store, region.start + from, length).unwrap();
        assert_eq!(got, content(SIZE, 5)[from as usize..][..length]);
    }
}

#[test]
fn a_second_opening_finds_the_copy_and_writes_nothing() {
    let rig = Rig::claimed(2, &SimDevOptions::default());
    let index = Index::new(1);
    let segment = index.segment("segment-000000.pages", SIZE, 5, 1);
    let start = copy(&rig.store().unwrap(), &segment).start;
    let before = rig.writes();
    let store = rig.store().unwrap();
    let found = store.find(&segment).unwrap().expect("it is there");
    assert_eq!((found.start, rig.writes()), (start, before));
    assert_eq!(copy(&store, &segment).start, start);
    assert_eq!(rig.writes(), before, "what is there is not copied");
}

#[test]
fn a_checkpoint_copies_its_new_segment_only() {
    let rig = Rig::claimed(4, &SimDevOptions::default());
    let index = Index::new(1);
    let first = index.segment("segment-000000.pages", SIZE, 5, 1);
    let store = rig.store().unwrap();
    copy(&store, &first);
    let before = rig.written_bytes();
    let second = index.segment("segment-000002.pages", 1 << 20, 6, 2);
    store.wants(index.uuid, 2, &[first.clone(), second.clone()]);
    assert!(store.find(&first).unwrap().is_some());
    copy(&store, &second);
    let written = rig.written_bytes() - before;
    assert!(written as f64 <= 1.1 * (1 << 20) as f64, "{written} bytes were written");
}

#[test]
fn an_index_rebuilt_under_the_same_name_is_noticed() {
    let rig = Rig::claimed(2, &SimDevOptions::default());
    let index = Index::new(1);
    let store = rig.store().unwrap();
    copy(&store, &index.segment("segment-000000.pages", SIZE, 5, 1));
    // The same uuid, name and length, as a backup that went its own way would have.
    let other = index.segment("segment-000000.pages", SIZE, 6, 1);
    assert!(store.find(&other).unwrap().is_none());
    let region = copy(&store, &other);
    assert_eq!(read(&store, region.start, 4096).unwrap(), content(4096, 6));
    assert_eq!(store.status().entries.len(), 1, "the old copy is not to be found again");
    // An index of another uuid is another one.
    let rebuilt = Index::new(2).segment("segment-000000.pages", SIZE, 6, 1);
    assert!(store.find(&rebuilt).unwrap().is_none());
}

#[test]
fn a_file_that_moved_is_known_by_its_bytes() {
    let rig = Rig::claimed(2, &SimDevOptions::default());
    let index = Index::new(1);
    let store = rig.store().unwrap();
    copy(&store, &index.segment("segment-000000.pages", SIZE, 5, 1));
    let writes = rig.writes();
    let moved = Index { dir: tempfile::tempdir().unwrap(), ..index };
    let moved = moved.segment("segment-000000.pages", SIZE, 5, 1);
    assert!(store.find(&moved).unwrap().is_some());
    assert_eq!(rig.writes(), writes);
}

#[test]
fn a_full_stripe_refuses_and_a_given_up_region_is_used_again() {
    // Room for some 6 MiB.
    let rig = Rig::claimed(2, &SimDevOptions { bytes: 4 << 20, ..SimDevOptions::default() });
    let index = Index::new(1);
    let store = rig.store().unwrap();
    let first = index.segment("segment-000000.pages", 4 << 20, 5, 1);
    let held = copy(&store, &first);
    let second = index.segment("segment-000002.pages", 4 << 20, 6, 2);
    let error = store.copy(&second, &mut |_| ()).unwrap_err();
    assert!(matches!(error, CopyError::Full { wanted, .. } if wanted == 4 << 20), "{error}");
    // The next generation does not want the first, but somebody reads it.
    store.wants(index.uuid, 2, std::slice::from_ref(&second));
    assert!(store.copy(&second, &mut |_| ()).is_err(), "a region that is read stays");
    assert_eq!(read(&store, held.start, 4096).unwrap(), content(4096, 5));
    let start = held.start;
    drop(held);
    assert_eq!(copy(&store, &second).start, start);
    assert_eq!(store.status().entries.len(), 1);
    assert!(store.find(&first).unwrap().is_none());
}

#[test]
fn a_region_that_goes_while_its_file_is_compared_is_not_found() {
    let rig = Rig::claimed(2, &SimDevOptions { bytes: 4 << 20, ..SimDevOptions::default() });
    let index = Index::new(1);
    let store = rig.store().unwrap();
    let first = index.segment("segment-000000.pages", 4 << 20, 5, 1);
    let start = copy(&store, &first).start;
    // A copy of the index that is slow to read.
    let slow = Index { dir: tempfile::tempdir().unwrap(), ..Index::new(1) };
    let path = slow.dir.path().join("segment-000000.pages");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let copied = pipeann_raw::CopiedSegment { path: path.clone(), ..first.clone() };
    let second = index.segment("segment-000002.pages", 4 << 20, 6, 2);
    let found = std::thread::scope(|scope| {
        let finding = scope.spawn(|| store.find(&copied).unwrap().map(|region| region.start));
        // Open as soon as it is read.
        let mut fifo = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        store.wants(index.uuid, 2, std::slice::from_ref(&second));
        assert_eq!(copy(&store, &second).start, start, "the only place there is");
        std::io::Write::write_all(&mut fifo, &content(4 << 20, 5)).unwrap();
        drop(fifo);
        finding.join().unwrap()
    });
    assert_eq!(found, None);
}

#[test]
fn an_older_generation_does_not_give_up_what_a_newer_one_wants() {
    let rig = Rig::claimed(2, &SimDevOptions::default());
    let index = Index::new(1);
    let store = rig.store().unwrap();
    let new = index.segment("segment-000009.pages", 1 << 20, 6, 9);
    drop(copy(&store, &new));
    // As a reader of a snapshot opens it.
    let old = index.segment("segment-000000.pages", 1 << 20, 5, 3);
    store.wants(index.uuid, 3, std::slice::from_ref(&old));
    copy(&store, &old);
    assert!(store.find(&new).unwrap().is_some());
}

#[test]
fn copies_of_one_index_are_given_up_and_others_stay() {
    let rig = Rig::claimed(2, &SimDevOptions::default());
    let (one, two) = (Index::new(1), Index::new(2));
    let store = rig.store().unwrap();
    let (a, b) = (one.segment("s", SIZE, 5, 1), two.segment("s", SIZE, 6, 1));
    drop((copy(&store, &a), copy(&store, &b)));
    assert_eq!(store.forget(Some(one.uuid)).unwrap(), 1);
    assert!(store.find(&a).unwrap().is_none() && store.find(&b).unwrap().is_some());
    drop(store);
    assert_eq!(rig.store().unwrap().status().entries.len(), 1);
}

#[test]
fn a_failing_device_leaves_the_stripe_as_it_was() {
    use pipeann_raw::device::Status;
    let rig = Rig::claimed(2, &SimDevOptions::default());
    rig.platters[1].break_block(1 << 20, Status::Nvme { kind: 2, code: 0x80 });
    let index = Index::new(1);
    let store = rig.store().unwrap();
    let segment = index.segment("s", SIZE, 5, 1);
    let error = store.copy(&segment, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("sim1") && error.contains("LBA 2048"), "{error}");
    assert!(error.contains("write fault"), "{error}");
    assert!(store.status().entries.is_empty());
    drop(store);
    assert!(Store::open(rig.devices(&Power::default()).unwrap()).is_ok());
}
