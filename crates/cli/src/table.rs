//! What people and programs read on standard output: aligned tables, and one JSON object a line.

use std::io::Write;

use anyhow::Result;

/// Writes one JSON object as a line.
///
/// # Errors
/// Where standard output cannot be written, a closed pipe included.
pub fn print_json(value: &serde_json::Value) -> Result<()> {
    print_line(&value.to_string())
}

/// Writes a line.
///
/// # Errors
/// As [`print_json`].
pub fn print_line(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// A table whose rows can be printed one by one: the columns are as wide as their titles, and
/// at least as wide as numbers usually are.
pub struct Table {
    widths: Vec<usize>,
    titles: Vec<String>,
}

const NUMBER_WIDTH: usize = 8;

impl Table {
    /// A table with these columns; all but the first `texts` are aligned to the right.
    pub fn new(titles: &[&str]) -> Self {
        let widths = titles.iter().map(|t| t.chars().count().max(NUMBER_WIDTH)).collect();
        Self { widths, titles: titles.iter().map(|t| (*t).to_owned()).collect() }
    }

    /// Makes the first column wide enough for `texts`.
    pub fn first_column<'t>(mut self, texts: impl Iterator<Item = &'t str>) -> Self {
        if let Some(width) = self.widths.first_mut() {
            *width = texts.map(|t| t.chars().count()).fold(*width, usize::max);
        }
        self
    }

    /// The line of titles.
    pub fn header(&self) -> String {
        self.line(&self.titles)
    }

    /// A line of cells.
    pub fn line<S: AsRef<str>>(&self, cells: &[S]) -> String {
        let mut out = String::new();
        for (i, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            let cell = cell.as_ref();
            if i == 0 {
                out.push_str(&format!("{cell:<width$}"));
            } else {
                out.push_str(&format!("  {cell:>width$}"));
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}

/// Prints names and values in two columns.
///
/// # Errors
/// As [`print_json`].
pub fn print_pairs(pairs: &[(&str, String)]) -> Result<()> {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in pairs {
        print_line(&format!("{name:<width$}  {value}"))?;
    }
    Ok(())
}

/// Bytes for people: `1.5 GiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "bytes" { format!("{n} {unit}") } else { format!("{value:.1} {unit}") }
}

/// A count for people: `1,000,000`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A time for people: `4 min 10 s`.
pub fn duration(seconds: f64) -> String {
    if seconds < 10.0 {
        return format!("{seconds:.1} s");
    }
    let s = seconds.round() as u64;
    match (s / 3600, s % 3600 / 60, s % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let table = Table::new(&["run", "recall"]).first_column(["a-long-name"].into_iter());
        assert_eq!(table.header(), "run            recall");
        assert_eq!(table.line(&["pipe", "0.9500"]), "pipe           0.9500");
        assert_eq!(table.line(&["pipe", ""]), "pipe");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
        assert_eq!([count(999), count(1000), count(1234567)], ["999", "1,000", "1,234,567"]);
        assert_eq!(duration(0.25), "0.2 s");
        assert_eq!(duration(250.0), "4 min 10 s");
        assert_eq!(duration(7260.0), "2 h 1 min");
    }
}
