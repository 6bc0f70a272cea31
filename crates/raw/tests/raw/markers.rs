//! Whose devices are: what is refused, by which name, and that nothing is written then.

use pipeann_raw::sim::{Platter, Power, SimDevOptions};
use pipeann_raw::{claim, release};

use crate::rig::{Rig, STRIPE};

fn refused(rig: &Rig) -> String {
    let before: Vec<Vec<u8>> = rig.platters.iter().map(Platter::content).collect();
    let writes = rig.writes();
    let devices = rig.devices(&Power::default());
    let why = match devices {
        Ok(devices) => match pipeann_raw::Store::open(devices) {
            Ok(_) => panic!("these devices are no stripe"),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    let after: Vec<Vec<u8>> = rig.platters.iter().map(Platter::content).collect();
    assert!(before == after && writes == rig.writes(), "nothing is written: {why}");
    why
}

fn options() -> SimDevOptions {
    SimDevOptions::default()
}

#[test]
fn another_order_is_named() {
    let rig = Rig::claimed(3, &options());
    let [a, b, c] = &rig.platters[..] else { panic!("three") };
    let swapped = Rig { platters: vec![a.clone(), c.clone(), b.clone()] };
    let why = refused(&swapped);
    assert!(why.contains("sim1 is number 3 of its stripe and stands at number 2"), "{why}");
    assert!(rig.store().is_ok(), "in the right order it is a stripe still");
}

#[test]
fn another_number_of_devices_is_named() {
    let rig = Rig::claimed(3, &options());
    let fewer = Rig { platters: rig.platters[..2].to_vec() };
    assert!(refused(&fewer).contains("a stripe over 3 devices, and 2 are listed"));
}

#[test]
fn devices_of_two_stripes_are_named() {
    let (one, two) = (Rig::claimed(2, &options()), Rig::claimed(2, &options()));
    let mixed = Rig { platters: vec![one.platters[0].clone(), two.platters[1].clone()] };
    let why = refused(&mixed);
    assert!(why.contains("sim1 is of the stripe") && why.contains("sim0"), "{why}");
}

#[test]
fn another_stripe_is_named() {
    let rig = Rig::claimed(2, &options());
    let bytes = rig.platters[1].content();
    let mut identity = pipeann_raw::marker::Identity::decode(&bytes).unwrap();
    identity.stripe_bytes = 4096;
    for place in pipeann_raw::marker::IDENTITIES {
        rig.platters[1].scribble(place, &identity.encode());
    }
    let why = refused(&rig);
    assert!(why.contains("sim1 has a stripe of 4096 bytes, and sim0 one of 65536"), "{why}");
}

#[test]
fn block_sizes_that_differ_or_changed_are_named() {
    let (a, b) =
        (Rig::new(1, &options()), Rig::new(1, &SimDevOptions { lba_bytes: 4096, ..options() }));
    let mixed = Rig { platters: vec![a.platters[0].clone(), b.platters[0].clone()] };
    let why = refused(&mixed);
    assert!(why.contains("sim1 has blocks (LBA) of 4096 bytes and sim0 of 512"), "{why}");
    let rig = Rig::claimed(1, &options());
    let formatted = Rig::new(1, &SimDevOptions { lba_bytes: 4096, ..options() });
    formatted.platters[0].scribble(0, &rig.platters[0].content());
    assert!(refused(&formatted).contains("claimed with blocks (LBA) of 512 bytes and has 4096"));
}

#[test]
fn a_device_that_became_smaller_is_named() {
    let rig = Rig::claimed(1, &options());
    let small = Rig::new(1, &SimDevOptions { bytes: 4 << 20, ..options() });
    small.platters[0].scribble(0, &rig.platters[0].content()[..4 << 20]);
    let why = refused(&small);
    assert!(why.contains("sim0 has 4194304 bytes, and 8388608 are needed"), "{why}");
    let tiny = Rig::new(1, &SimDevOptions { bytes: 1 << 20, ..options() });
    assert!(refused(&tiny).contains("sim0 has 1048576 bytes"));
}

#[test]
fn a_foreign_disk_is_named_and_only_a_claim_that_says_so_takes_it() {
    let rig = Rig::new(2, &options());
    rig.platters[1].scribble(1080, &[0x53, 0xef]);
    let why = refused(&rig);
    assert!(why.contains("sim0 is not claimed") && why.contains("pipeann raw claim"), "{why}");
    let devices = rig.devices(&Power::default()).unwrap();
    let why = claim(&devices, STRIPE, false).unwrap_err().to_string();
    assert!(why.contains("sim1 holds an ext file system"), "{why}");
    assert_eq!(rig.writes(), 0);
    claim(&devices, STRIPE, true).unwrap();
    drop(devices);
    assert!(rig.store().is_ok());
    // Ours holds copies, perhaps: they are not given up by accident either.
    let devices = rig.devices(&Power::default()).unwrap();
    let why = claim(&devices, STRIPE, false).unwrap_err().to_string();
    assert!(why.contains("device 1 of a stripe of pipeann"), "{why}");
    release(&devices).unwrap();
    assert!(release(&devices).unwrap_err().to_string().contains("not claimed"));
    drop(devices);
    assert!(refused(&rig).contains("it holds nothing"));
}

#[test]
fn a_foreign_disk_is_not_released() {
    let rig = Rig::new(1, &options());
    rig.platters[0].scribble(0, b"XFSB");
    let why = release(&rig.devices(&Power::default()).unwrap()).unwrap_err().to_string();
    assert!(why.contains("an XFS file system"), "{why}");
    assert_eq!(rig.writes(), 0);
}

#[test]
fn one_damaged_copy_of_a_marker_is_survived_and_two_are_named() {
    let rig = Rig::claimed(1, &options());
    rig.platters[0].scribble(20, &[0xff]);
    rig.platters[0].scribble((64 << 10) + 20, &[0xff]);
    assert!(rig.store().is_ok());
    rig.platters[0].scribble((512 << 10) + 20, &[0xff]);
    let why = refused(&rig);
    assert!(why.contains("sim0: a damaged marker"), "{why}");
    let mut identity = rig.platters[0].content()[4096..4160].to_vec();
    identity[8] = 2;
    rig.platters[0].scribble(4096, &identity);
    assert!(refused(&rig).contains("version 2"));
}

#[test]
fn stripes_that_cannot_be_are_refused() {
    let rig = Rig::new(1, &options());
    let devices = rig.devices(&Power::default()).unwrap();
    for stripe in [0, 1000, 6144, 128 << 20] {
        assert!(claim(&devices, stripe, false).is_err(), "{stripe}");
    }
    assert!(claim(&devices, 64 << 20, false).unwrap_err().to_string().contains("are needed"));
    assert_eq!(rig.writes(), 0);
}
