//! `docs/database-format.md` against the constants of rows.

use crate::value::{MAX_ROW_BYTES, MAX_ROW_COLUMNS, ROW_FORMAT, row_header};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/database-format.md");

/// (offset, size, name) of each row of the first table below the heading `title`.
fn documented(document: &str, title: &str) -> Vec<(usize, usize, String)> {
    let (_, section) = document
        .split_once(&format!("# {title}\n"))
        .unwrap_or_else(|| panic!("docs/database-format.md has no heading `{title}`"));
    let table = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = table.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].parse().unwrap(), cells[1].parse().unwrap(), cells[2].to_owned())
    })
    .collect()
}

#[test]
fn the_byte_table_agrees_with_the_constants() {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let fields = row_header::FIELDS.iter().map(|f| (f.offset, f.bytes, f.name.to_owned()));
    assert_eq!(documented(&document, "Row header"), fields.collect::<Vec<_>>());
    let end = row_header::FIELDS.last().map(|f| f.offset + f.bytes);
    assert_eq!(end, Some(row_header::BYTES));
}

#[test]
fn limits_agree_with_the_constants() {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    for (name, value) in [
        ("row format", usize::from(ROW_FORMAT)),
        ("row bytes", MAX_ROW_BYTES),
        ("row columns", MAX_ROW_COLUMNS),
    ] {
        let row = format!("| {name} | {value} |");
        assert!(document.contains(&row), "docs/database-format.md lacks `{row}`");
    }
}
