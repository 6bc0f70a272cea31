//! Mapping a file of vectors or numbers into memory.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use memmap2::Mmap;

/// A file mapped for reading.
#[expect(unsafe_code, reason = "memmap2 makes mapping unsafe, since others may change the file")]
pub fn map(path: &Path) -> Result<Mmap> {
    let file = File::open(path).with_context(|| format!("{}: cannot be opened", path.display()))?;
    ensure!(
        file.metadata().map(|m| m.is_file()).unwrap_or(false),
        "{}: not a regular file",
        path.display()
    );
    // SAFETY: the map is read-only and its bytes are only ever viewed as plain integers and
    // floats, for which every bit pattern is valid; inputs are documented as not to be changed
    // or cut while a command runs.
    let map = unsafe { Mmap::map(&file) };
    map.with_context(|| format!("{}: cannot be mapped into memory", path.display()))
}
