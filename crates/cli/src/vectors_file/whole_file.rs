//! Writing a file under a temporary name first, so that a name never shows half a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A file that gets its name when it is whole; dropped before, it leaves nothing.
pub struct WholeFile {
    out: Option<BufWriter<File>>,
    path: PathBuf,
    partial: PathBuf,
}

impl WholeFile {
    /// Begins a file; one of the same name is replaced at the end.
    pub fn create(path: &Path) -> Result<Self> {
        let mut name = path.file_name().context("the output names no file")?.to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        let partial = path.with_file_name(name);
        let file = File::create(&partial)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        let out = Some(BufWriter::with_capacity(1 << 20, file));
        Ok(Self { out, path: path.to_owned(), partial })
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let out = self.out.as_mut().expect("a file under way has a writer");
        out.write_all(bytes).with_context(|| format!("{}: cannot be written", self.path.display()))
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Result<()> {
        let mut out = self.out.take().expect("a file under way has a writer");
        let done = out.flush().and_then(|()| std::fs::rename(&self.partial, &self.path));
        if done.is_err() {
            self.out = Some(out);
        }
        done.with_context(|| format!("{}: cannot be written", self.path.display()))
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.out.take().is_some() {
            // The error that led here is the one to report.
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}
