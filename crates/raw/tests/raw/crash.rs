//! The power fails at every write of a copy: whatever a marker names then is what was copied.

use std::sync::Arc;

use pipeann_raw::sim::{Power, SimDevOptions};
use pipeann_raw::{Store, claim};

use crate::rig::{Index, Rig, STRIPE, content, read};

const FIRST: u64 = 700_000;
const SECOND: u64 = 900_000;

/// Pages of copies that a stripe names and that are not what was copied.
fn wrong(rig: &Rig) -> usize {
    let store = rig.store().expect("claimed devices stay ours");
    let mut wrong = 0;
    for entry in store.status().entries {
        let salt = if entry.name == "first" { 5 } else { 6 };
        let expected = content(entry.bytes, salt);
        let whole = entry.bytes as usize / 4096 * 4096;
        let got = read(&store, entry.start, whole).expect("no fault");
        wrong += (got.chunks(4096)).zip(expected.chunks(4096)).filter(|(a, b)| a != b).count();
    }
    wrong
}

#[test]
fn a_cut_at_every_write_never_leaves_a_wrong_page() {
    let options = SimDevOptions { bytes: 3 << 20, delay: 2, ..SimDevOptions::default() };
    let index = Index::new(1);
    let first = index.segment("first", FIRST, 5, 1);
    let second = index.segment("second", SECOND, 6, 2);
    let (mut cuts, mut found) = (0, 0);
    for number in 0.. {
        let rig = Rig::claimed(2, &options);
        drop(rig.store().unwrap().copy(&first, &mut |_| ()).unwrap());
        let power = Power::fails_at(number);
        let cut = {
            let store = Store::open(rig.devices(&power).unwrap()).unwrap();
            // The room is short, so that the first has to go before the second comes.
            store.wants(index.uuid, 2, std::slice::from_ref(&second));
            store.copy(&second, &mut |_| ()).is_err()
        };
        for seed in 0..4 {
            let after = rig.after_cut(number * 7 + seed);
            assert_eq!(wrong(&after), 0, "cut at write {number}, seed {seed}");
            let store = after.store().unwrap();
            found += usize::from(store.find(&second).unwrap().is_some());
            // It goes on from there.
            let region: Arc<_> = store.copy(&second, &mut |_| ()).unwrap();
            assert_eq!(read(&store, region.start, 4096).unwrap(), content(4096, 6));
        }
        cuts += usize::from(cut);
        if !cut {
            break;
        }
    }
    println!("cuts {cuts} wrong_pages 0 copies_complete {found}");
    assert!(cuts > 10 && found > 0, "{cuts} cuts, {found} complete copies");
}

#[test]
fn a_cut_at_every_write_of_a_claim_leaves_a_stripe_or_none() {
    let options = SimDevOptions { bytes: 3 << 20, ..SimDevOptions::default() };
    for number in 0.. {
        let rig = Rig::new(2, &options);
        let power = Power::fails_at(number);
        let over = claim(&rig.devices(&power).unwrap(), STRIPE, false).is_ok();
        let after = rig.after_cut(number);
        let opened = after.store().map(|store| store.status().entries.len());
        if over {
            assert_eq!(opened.unwrap(), 0);
            break;
        }
        assert!(opened.is_err() || opened.is_ok_and(|copies| copies == 0), "cut {number}");
        // Claimed again it is whole.
        claim(&after.devices(&Power::default()).unwrap(), STRIPE, true).unwrap();
        assert!(after.store().is_ok());
    }
}

/// After a directory could not be written nobody knows which of the two counts.
#[test]
fn nothing_is_copied_after_a_marker_that_failed() {
    use pipeann_raw::CopyError;
    use pipeann_raw::device::Status;
    let rig = Rig::claimed(2, &SimDevOptions::default());
    let index = Index::new(1);
    let store = rig.store().unwrap();
    rig.platters[0].break_block(64 << 10, Status::Nvme { kind: 2, code: 0x80 });
    assert!(store.copy(&index.segment("first", FIRST, 5, 1), &mut |_| ()).is_err());
    let again = store.copy(&index.segment("second", SECOND, 6, 1), &mut |_| ());
    assert!(matches!(again, Err(CopyError::Poisoned)), "{again:?}");
}
