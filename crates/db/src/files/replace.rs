//! Replacing a file as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Puts `bytes` into the file `name` of `dir`, on stable storage: a new file, synced, renamed over
/// the old one, the directory synced. Interrupted, it leaves the old file, and `name.new`.
pub(crate) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, dir.join(name))?;
    File::open(dir)?.sync_all()
}
