//! `docs/disk-format.md` against the constants: every byte table, and the numbers beside it.

use crate::format::constants::{self, TABLES};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/disk-format.md");

/// (offset, size, name) of each row of the first table below the heading `title`.
fn documented(document: &str, title: &str) -> Vec<(usize, usize, String)> {
    let heading = document
        .lines()
        .position(|line| line.starts_with('#') && line.trim_start_matches('#').trim() == title)
        .unwrap_or_else(|| panic!("docs/disk-format.md has no heading `{title}`"));
    let table = document.lines().skip(heading + 1).take_while(|line| !line.starts_with('#'));
    let rows = table.skip_while(|line| !line.starts_with('|')).take_while(|l| l.starts_with('|'));
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
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    for (title, fields) in TABLES {
        let expected: Vec<_> = fields
            .iter()
            .map(|field| (field.offset, field.bytes, field.name.to_lowercase().replace('_', " ")))
            .collect();
        assert_eq!(documented(&document, title), expected, "table `{title}`");
    }
    // Those of raw SSDs are compared where they are written.
    let own = document.split("\n## Raw SSDs\n").next().unwrap();
    let tables = own.lines().filter(|line| line.starts_with("| offset ")).count();
    assert_eq!(tables, TABLES.len(), "every byte table of the document is compared");
}

#[test]
fn limits_agree_with_the_constants() {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let limits: &[(&str, usize)] = &[
        ("alignment", constants::ALIGNMENT),
        ("block bytes", constants::BLOCK_BYTES),
        ("largest packed page", constants::MAX_PACKED_PAGE_BYTES),
        ("largest record", constants::MAX_RECORD_BYTES),
        ("records per page", constants::MAX_RECORDS_PER_PAGE),
        ("dimension", constants::MAX_DIM),
        ("degree", constants::MAX_DEGREE),
        ("code bytes", constants::MAX_CODE_BYTES),
        ("path bytes", constants::MAX_PATH_BYTES),
        ("manifest bytes", constants::MAX_MANIFEST_BYTES),
        ("fill of 1", constants::FILL_ONE as usize),
        ("manifest version", constants::MANIFEST_VERSION as usize),
        ("file version", usize::from(constants::FILE_VERSION)),
    ];
    for (name, value) in limits {
        let row = format!("| {name} | {value} |");
        assert!(document.contains(&row), "docs/disk-format.md lacks `{row}`");
    }
    for magic in [&constants::MANIFEST_MAGIC, &constants::FILE_MAGIC] {
        let magic = String::from_utf8_lossy(magic);
        assert!(document.contains(&format!("`{magic}`")), "docs/disk-format.md lacks {magic}");
    }
}
