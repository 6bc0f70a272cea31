//! `docs/database-format.md` against the constants.

use crate::docstore::state_file::{COUNT, Field, HEADER};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/database-format.md");

/// (name, offset, size) of each row of the first table below the heading `title`.
fn documented(document: &str, title: &str) -> Vec<(String, usize, usize)> {
    let below = document.lines().skip_while(|l| l.trim_start_matches('#').trim() != title).skip(1);
    let table = below.take_while(|l| !l.starts_with('#')).skip_while(|l| !l.starts_with('|'));
    let rows = table.take_while(|l| l.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "offset, size, name, meaning: {row}");
        (cells[2].to_owned(), cells[0].parse().unwrap(), cells[1].parse().unwrap())
    })
    .collect()
}

#[test]
fn byte_tables_of_the_row_store_agree_with_the_constants() {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let tables: [(&str, &[Field]); 2] =
        [("Row store: header of STATE", HEADER), ("Row store: one counter of STATE", COUNT)];
    for (title, fields) in tables {
        let expected: Vec<_> =
            fields.iter().map(|&(name, at, bytes)| (name.to_owned(), at, bytes)).collect();
        assert_eq!(documented(&document, title), expected, "{title}");
        let mut end = 0;
        for &(name, offset, bytes) in fields {
            assert_eq!(offset, end, "{name} leaves a gap or overlaps");
            end += bytes;
        }
    }
}
