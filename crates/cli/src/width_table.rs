//! A file of widths by searches under way, as a profile of an index writes it.
//!
//! ```toml
//! # what follows is for people
//! widths = [[1, 32], [4, 8], [16, 2]]   # from so many searches on, a pipeline so wide at most
//! ```

use std::path::Path;

use anyhow::{Context, Result};
use pipeann_engine::search::WidthTable;
use serde::Deserialize;

use crate::vectors_file::WholeFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    widths: Vec<(u32, u16)>,
}

/// Reads a table.
///
/// # Errors
/// Names the file, and what is wrong with it.
pub fn read(path: &Path) -> Result<WidthTable> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    parse(&text).with_context(name)
}

fn parse(text: &str) -> Result<WidthTable> {
    let text: Text = toml::from_str(text)?;
    Ok(WidthTable::new(&text.widths)?)
}

/// Writes a table, with a line for people that says where it comes from.
///
/// # Errors
/// Names the file.
pub fn write(path: &Path, table: &WidthTable, about: &str) -> Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write(text_of(table, about).as_bytes())?;
    file.finish()
}

fn text_of(table: &WidthTable, about: &str) -> String {
    let steps: Vec<String> =
        table.steps().iter().map(|(n, width)| format!("[{n}, {width}]")).collect();
    format!(
        "# {about}\n# From so many searches on, the widest pipeline of each.\nwidths = [{}]\n",
        steps.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let table = WidthTable::new(&[(1, 32), (4, 8)]).unwrap();
        let text = text_of(&table, "of sift1m");
        assert!(text.starts_with("# of sift1m\n"), "{text}");
        assert_eq!(parse(&text).unwrap(), table);
    }

    #[test]
    fn other_files_are_refused() {
        let refused = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert!(refused("").contains("widths"));
        assert!(refused("widths = [[2, 8]]").contains("first step"));
        assert!(refused("widths = [[1, 8]]\ncolour = 1").contains("colour"));
        assert!(refused("widths = [[1, 80000]]").contains("80000"));
    }
}
