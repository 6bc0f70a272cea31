//! `docs/database-format.md` against the constants: byte tables, and the numbers beside them.

use super::super::constants::{self as c, TABLES};
use crate::files::documentation::{DOCUMENT, assert_numbers, assert_table};

#[test]
fn byte_tables_agree_with_the_constants() {
    for (title, fields) in TABLES {
        assert_table(title, fields);
    }
    let of_the_log = DOCUMENT.lines().filter(|l| l.starts_with("### Log ")).count();
    assert_eq!(of_the_log, TABLES.len(), "every byte table of the log is compared");
}

#[test]
fn numbers_agree_with_the_constants() {
    assert_numbers(&[
        ("segment version", c::SEGMENT_VERSION as usize),
        ("frame alignment", c::FRAME_ALIGNMENT),
        ("payload bytes", c::MAX_PAYLOAD_BYTES),
        ("kind of a mark", usize::from(c::KIND_MARK)),
        ("kind of a put", usize::from(c::KIND_PUT)),
        ("kind of a delete", usize::from(c::KIND_DELETE)),
        ("kind of an upsert", usize::from(c::KIND_UPSERT)),
        ("kind of a link", usize::from(c::KIND_LINK)),
    ]);
    let magic = String::from_utf8_lossy(&c::SEGMENT_MAGIC);
    assert!(DOCUMENT.contains(&format!("`{magic}`")), "docs/database-format.md lacks {magic}");
    let magic = format!("`{:#010x}`", c::FRAME_MAGIC);
    assert!(DOCUMENT.contains(&magic), "docs/database-format.md lacks {magic}");
}
