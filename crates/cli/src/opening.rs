//! Opening an index the same way in every command.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::io::{Backend, CopyProgress, DeviceCounts};
use pipeann_engine::memory::MemoryLimit;
use pipeann_server::opening::By;
pub use pipeann_server::opening::parse_limit;
use serde_json::{Value, json};

use crate::progress;

/// Which index, and how its files are read.
#[derive(Clone, Debug, Args)]
pub struct IndexArgs {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    pub index: PathBuf,
    /// How its files are read.
    #[command(flatten)]
    pub reading: Reading,
}

/// How files of an index are read.
#[derive(Clone, Debug, Default, Args)]
pub struct Reading {
    /// Read through the page cache of the operating system instead of past it (O_DIRECT)
    #[arg(long)]
    pub buffered: bool,
    /// Let a kernel thread submit reads (io_uring SQPOLL); burns a core
    #[arg(long)]
    pub sqpoll: bool,
    /// Keep only pages in memory that searches read, and read none ahead of them. Else a thread of
    /// low priority reads pages until all are there that fit, and what is measured waits for it
    #[arg(long)]
    pub no_warming: bool,
    /// By what.
    #[command(flatten)]
    pub by: By,
}

/// Waits until a backend has copied what was opened, with a bar where somebody looks.
pub fn wait_copied(backend: &dyn Backend) -> CopyProgress {
    let mut bar = None;
    let copied = backend.wait_copied(&mut |at| {
        let bar = bar.get_or_insert_with(|| progress::bar("copying", at.all_bytes, "bytes"));
        bar.set_length(at.all_bytes);
        bar.set_position(at.done_bytes);
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    copied
}

impl Reading {
    /// How an index is opened under a limit of its own.
    ///
    /// # Errors
    /// As [`By::backend`].
    pub fn options(&self, limit: MemoryLimit) -> Result<OpenOptions> {
        Ok(OpenOptions {
            backend: Some(self.by.backend()?),
            direct: !self.buffered,
            warm: !self.no_warming,
            sqpoll: self.sqpoll,
            ..OpenOptions::under(limit)
        })
    }
}

impl IndexArgs {
    /// Opens the index under a memory limit.
    ///
    /// # Errors
    /// Whatever keeps the index from opening; names the file, or the memory needed.
    pub fn open(&self, limit: MemoryLimit) -> Result<Index> {
        open(&self.index, limit, &self.reading)
    }
}

/// What raw devices were asked for since they were opened, for scripts; an empty list without them.
pub fn devices_json(backend: &dyn Backend) -> Value {
    let device = |counts: DeviceCounts| {
        json!({
            "reads": counts.reads, "read_bytes": counts.read_bytes, "writes": counts.writes,
            "written_bytes": counts.written_bytes, "flushes": counts.flushes,
            "errors": counts.errors, "from_files": counts.from_files,
        })
    };
    backend.device_counts().into_iter().map(device).collect()
}

/// Opens an index.
///
/// # Errors
/// As [`IndexArgs::open`].
pub fn open(path: &Path, limit: MemoryLimit, reading: &Reading) -> Result<Index> {
    // An accountant for each, since `bench` opens several indexes one after the other.
    let index = Index::open(path, &reading.options(limit)?)?;
    // What is measured is to come from where it will stay.
    wait_copied(index.backend().as_ref());
    Ok(index)
}
