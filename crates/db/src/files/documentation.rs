//! Compares `docs/database-format.md` with the constants of the source, for the tests of all rooms.

use super::ByteField;

pub(crate) const DOCUMENT: &str = include_str!("../../../../docs/database-format.md");

/// (offset, size, name) of each row of the first table below the heading `title`.
fn documented(title: &str) -> Vec<(usize, usize, String)> {
    let is_heading =
        |line: &&str| line.starts_with('#') && line.trim_start_matches('#').trim() == title;
    assert!(DOCUMENT.lines().any(|line| is_heading(&line)), "no heading `{title}`");
    let below = DOCUMENT.lines().skip_while(|line| !is_heading(line)).skip(1);
    let table = below.take_while(|l| !l.starts_with('#')).skip_while(|l| !l.starts_with('|'));
    let rows = table.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "offset, size, name, meaning: {row}");
        (cells[0].parse().unwrap(), cells[1].parse().unwrap(), cells[2].to_owned())
    })
    .collect()
}

/// Fails unless the table below the heading is that of these fields, which leave no gap. Returns
/// their width.
pub(crate) fn assert_table(title: &str, fields: &[ByteField]) -> usize {
    let name = |field: &ByteField| field.name.to_lowercase().replace('_', " ");
    let expected: Vec<_> = fields.iter().map(|f| (f.offset, f.bytes, name(f))).collect();
    assert_eq!(documented(title), expected, "table `{title}`");
    fields.iter().fold(0, |end, field| {
        assert_eq!(field.offset, end, "{} leaves a gap or overlaps", field.name);
        end + field.bytes
    })
}

/// Fails unless the document has each of these numbers by name.
pub(crate) fn assert_numbers(numbers: &[(&str, usize)]) {
    for (name, value) in numbers {
        let row = format!("| {name} | {value} |");
        assert!(DOCUMENT.contains(&row), "docs/database-format.md lacks `{row}`");
    }
}
