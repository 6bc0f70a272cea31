//! `docs/database-format.md` against the constants of rows.

use crate::files::documentation::{assert_numbers, assert_table};
use crate::value::{MAX_ROW_BYTES, MAX_ROW_COLUMNS, ROW_FORMAT, row_header};

#[test]
fn the_byte_table_agrees_with_the_constants() {
    assert_eq!(assert_table("Row header", row_header::FIELDS), row_header::BYTES);
}

#[test]
fn limits_agree_with_the_constants() {
    assert_numbers(&[
        ("row format", usize::from(ROW_FORMAT)),
        ("row bytes", MAX_ROW_BYTES),
        ("row columns", MAX_ROW_COLUMNS),
    ]);
}
