//! Opening an index for changes, the same way in every workload.

use anyhow::Result;
use clap::Args;
use pipeann_cli::opening::{IndexArgs, wait_copied};
use pipeann_engine::memory::MemoryLimit;
use pipeann_engine::update::{LiveIndex, LiveOptions};

/// Which index, and under which memory limit.
#[derive(Clone, Debug, Args)]
pub(crate) struct LiveIndexArgs {
    #[command(flatten)]
    pub(crate) index: IndexArgs,
    /// Memory for the index: floor (no pages stay in memory), all, or bytes as 512MiB or 1GiB
    #[arg(long, value_name = "LIMIT", default_value = "floor")]
    pub(crate) memory_limit: MemoryLimit,
}

impl LiveIndexArgs {
    /// Opens the index for reading and writing.
    ///
    /// # Errors
    /// Whatever keeps the index from opening; another writer among it.
    pub(crate) fn open(&self) -> Result<LiveIndex> {
        let open = self.index.reading.options(self.memory_limit)?;
        let options = LiveOptions { open, ..LiveOptions::default() };
        let backend = options.open.backend.clone();
        let index = LiveIndex::open(&self.index.index, options)?;
        if let Some(backend) = backend {
            wait_copied(backend.as_ref());
        }
        Ok(index)
    }
}
