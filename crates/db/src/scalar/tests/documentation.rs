//! The byte tables of the format.

use super::super::directory::{TRAILER, TRAILER_BYTES, VERSION};
use super::super::manifest::{self, HEADER, HEADER_BYTES};
use crate::files::documentation::assert_table;

#[test]
fn tables_leave_no_gap_and_are_documented() {
    assert_eq!(assert_table("Scalar indexes: header of SCALARS", HEADER), HEADER_BYTES);
    assert_eq!(assert_table("Scalar indexes: trailer of a run", TRAILER), TRAILER_BYTES);
    assert_eq!((VERSION, manifest::VERSION), (1, 1), "the document says so");
}
