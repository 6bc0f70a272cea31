//! `docs/database-format.md` against the constants: byte tables, and the numbers beside them.

use super::super::constants::{self as c, TABLES};

const DOCUMENT: &str = include_str!("../../../../../docs/database-format.md");

/// (offset, size, name) of each row of the first table below the heading `title`.
fn documented(title: &str) -> Vec<(usize, usize, String)> {
    let heading = DOCUMENT
        .lines()
        .position(|line| line.starts_with('#') && line.trim_start_matches('#').trim() == title)
        .unwrap_or_else(|| panic!("docs/database-format.md has no heading `{title}`"));
    let table = DOCUMENT.lines().skip(heading + 1).take_while(|line| !line.starts_with('#'));
    let rows = table.skip_while(|l| !l.starts_with('|')).take_while(|l| l.starts_with('|'));
    rows.skip(2)
        .map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 4, "offset, size, name, meaning: {row}");
            assert!(!cells[3].is_empty(), "a field has a meaning: {row}");
            (cells[0].parse().unwrap(), cells[1].parse().unwrap(), cells[2].to_owned())
        })
        .collect()
}

#[test]
fn byte_tables_agree_with_the_constants() {
    for (title, fields) in TABLES {
        let name = |field: &c::Field| field.name.to_lowercase().replace('_', " ");
        let expected: Vec<_> = fields.iter().map(|f| (f.offset, f.bytes, name(f))).collect();
        assert_eq!(documented(title), expected, "table `{title}`");
    }
    let of_the_log = DOCUMENT.lines().filter(|l| l.starts_with("### Log ")).count();
    assert_eq!(of_the_log, TABLES.len(), "every byte table of the log is compared");
}

#[test]
fn numbers_agree_with_the_constants() {
    let numbers = [
        ("segment version", c::SEGMENT_VERSION as usize),
        ("frame alignment", c::FRAME_ALIGNMENT),
        ("payload bytes", c::MAX_PAYLOAD_BYTES),
        ("kind of a mark", usize::from(c::KIND_MARK)),
        ("kind of a put", usize::from(c::KIND_PUT)),
        ("kind of a delete", usize::from(c::KIND_DELETE)),
        ("kind of an upsert", usize::from(c::KIND_UPSERT)),
        ("kind of a link", usize::from(c::KIND_LINK)),
    ];
    for (name, value) in numbers {
        let row = format!("| {name} | {value} |");
        assert!(DOCUMENT.contains(&row), "docs/database-format.md lacks `{row}`");
    }
    let magic = String::from_utf8_lossy(&c::SEGMENT_MAGIC);
    assert!(DOCUMENT.contains(&format!("`{magic}`")), "docs/database-format.md lacks {magic}");
    let magic = format!("`{:#010x}`", c::FRAME_MAGIC);
    assert!(DOCUMENT.contains(&magic), "docs/database-format.md lacks {magic}");
}
