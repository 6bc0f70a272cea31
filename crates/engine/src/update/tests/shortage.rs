//! Opening where the machine is short of something, and where files are damaged.

use std::sync::Arc;

use super::{Place, Rows, built};
use crate::index::fixture::{Breaking, open_options};
use crate::index::{OpenError, read_manifest};
use crate::io::ReadFault;
use crate::types::ErrorClass;
use crate::update::{LiveIndex, LiveOptions, UpdateError};

fn open(place: &Place, broken: bool) -> Result<LiveIndex, UpdateError> {
    let backend = Arc::new(Breaking::default());
    backend.set_broken(broken);
    let open = open_options(&backend);
    LiveIndex::open(&place.path, LiveOptions { open, ..LiveOptions::default() })
}

fn damage(place: &Place, name: &str) {
    let file = place.path.join("part-0000").join(name);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
}

#[test]
fn a_shortage_while_codes_are_read_is_not_taken_for_damage() {
    let place = built(&Rows::clustered(1_000, 16, 1), 1_000);
    let error = open(&place, true).err().unwrap();
    let UpdateError::Open(OpenError::Unread(why)) = &error else { panic!("{error:?}") };
    assert_eq!(why.fault, ReadFault::Shortage, "{why}");
    assert_eq!(error.class(), ErrorClass::Retry);
    assert_eq!(open(&place, false).unwrap().rows(), 1_000, "it was sound");
}

#[test]
fn codes_and_row_maps_that_are_damaged_are_said_to_be() {
    let place = built(&Rows::clustered(1_000, 16, 1), 1_000);
    let manifest = read_manifest(&place.path).unwrap();
    let part = &manifest.partitions[0];
    let row_map = part.row_map.as_ref().map(|map| map.path.as_str());
    for name in [Some(part.codes.path.as_str()), row_map].into_iter().flatten() {
        let copy = place.copy();
        damage(&copy, name);
        let error = open(&copy, false).err().unwrap();
        let damaged =
            matches!(&error, UpdateError::Open(OpenError::Damaged(why)) if why.contains(name));
        assert!(damaged, "{error:?}");
        assert_eq!(error.class(), ErrorClass::Stop);
    }
}
