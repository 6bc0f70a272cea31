//! Opening a database or an index the same way in every process: its clock, its memory limit, and by
//! what pages are read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use pipeann_db::catalog::UnixMs;
use pipeann_db::database::DatabaseOptions;
use pipeann_engine::io::{Backend, BackendChoice};
use pipeann_engine::memory::MemoryLimit;

/// A limit in bytes, with or without a unit.
///
/// # Errors
/// That it is none.
pub fn parse_limit(s: &str) -> Result<u64, String> {
    MemoryLimit::parse_bytes(s)
        .ok_or_else(|| format!("`{s}` is no limit; expected bytes as 512MiB or 1GiB"))
}

/// The clock that databases are given.
pub fn now() -> UnixMs {
    #[expect(clippy::disallowed_methods, reason = "the process is where the clock comes in")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How a process opens a database: with its clock, and under a memory limit of its own; without one,
/// all that it opens share the accountant of the process. What a limit means for buffers and for
/// pages in memory is [`DatabaseOptions::under`]'s.
pub fn database_options(limit: Option<MemoryLimit>) -> DatabaseOptions {
    let options = DatabaseOptions::new(now);
    match limit {
        Some(limit) => options.under(limit),
        None => options,
    }
}

/// By what reads are done.
#[derive(Clone, Debug, Default, Args)]
pub struct By {
    /// By what reads are done: io_uring, libaio (wants O_DIRECT), threads, or auto for the best that
    /// may be used; that is taken too, with a warning, where another is refused. spdk reads pages
    /// from raw SSDs, to which they are copied first, and all else as auto does. For measurements
    /// alone, injected:LATENCY_US or injected:LATENCY_US:READS_PER_S: files are held in memory,
    /// outside of any limit, and each read takes the latency
    #[arg(long, value_name = "NAME", default_value_t)]
    pub backend: BackendChoice,
    /// The list of SSDs of --backend spdk [default: spdk_bdevs.json in the working directory]
    #[arg(long, value_name = "FILE.json")]
    pub spdk_config: Option<PathBuf>,
}

impl By {
    /// The backend.
    ///
    /// # Errors
    /// SSDs that cannot be used, named.
    pub fn backend(&self) -> Result<Arc<dyn Backend>> {
        let backend = self.backend.backend(self.spdk_config.as_deref());
        backend.with_context(|| format!("--backend {}", self.backend))
    }
}
