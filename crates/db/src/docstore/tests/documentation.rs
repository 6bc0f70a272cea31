//! `docs/database-format.md` against the constants.

use crate::docstore::state_file::{COUNT, HEADER};
use crate::files::documentation::assert_table;

#[test]
fn byte_tables_of_the_row_store_agree_with_the_constants() {
    assert_table("Row store: header of STATE", HEADER);
    assert_table("Row store: one counter of STATE", COUNT);
}
