//! How graphs are built and kept.

use std::sync::Arc;

use pipeann_engine::build::BuildOptions;
use pipeann_engine::index::{OpenOptions, Resident};
use pipeann_engine::io::Backend;
use pipeann_engine::memory::Accountant;
use pipeann_engine::update::{LiveOptions, UpkeepOptions};

use super::FieldIndexError;
use crate::catalog::{IndexDefinition, Properties, is_exact_kind};
use crate::ids::Metric;

/// Settings of the graphs of a collection.
#[derive(Clone, Debug)]
pub struct GraphOptions {
    /// Threads of a build; 0 means one per CPU.
    pub build_threads: usize,
    /// Threads that link rows which come after the build, and that write the graph to disk and
    /// take deleted rows out of it; at least 1.
    pub link_threads: usize,
    /// Rows below which a collection has no graph: an exact search of so few is as quick.
    pub least_rows: u64,
    /// Rows that may wait to be linked. Writers wait while there are more.
    pub pending_rows: u64,
    /// Bytes of changes in memory from which on the graph is written to disk.
    pub dirty_bytes: u64,
    /// Share of deleted rows in the graph from which on they are taken out of it.
    pub deleted_share: f64,
    /// Share of rows that came since the pages were laid out from which on that is done anew.
    pub strewn_share: f64,
    /// Whether pages are read past the page cache of the operating system.
    pub direct: bool,
    /// Which pages are kept in memory.
    pub resident: Resident,
    /// How pages are read; by the engine's choice where it is `None`.
    pub backend: Option<Arc<dyn Backend>>,
}

impl Default for GraphOptions {
    /// All CPUs for builds, one thread for links; a graph from 2,000 rows on, 100,000 rows waiting
    /// at most, 64 MiB of changes, a fifth deleted or new; direct reads, and no resident
    /// pages.
    fn default() -> Self {
        Self {
            build_threads: 0,
            link_threads: 1,
            least_rows: 2_000,
            pending_rows: 100_000,
            dirty_bytes: 64 << 20,
            deleted_share: 0.2,
            strewn_share: 0.2,
            direct: true,
            resident: Resident::None,
            backend: None,
        }
    }
}

impl GraphOptions {
    /// How the engine opens a graph.
    pub(super) fn live(&self, accountant: &Arc<Accountant>) -> LiveOptions {
        let open = OpenOptions {
            backend: self.backend.clone(),
            direct: self.direct,
            resident: self.resident,
            accountant: Arc::clone(accountant),
            ..OpenOptions::default()
        };
        let threads = Some(self.link_threads.max(1));
        LiveOptions { open, threads, ..LiveOptions::default() }
    }

    /// When the engine's upkeep is due.
    pub(super) fn upkeep(&self) -> UpkeepOptions {
        UpkeepOptions {
            dirty_bytes: self.dirty_bytes,
            tombstones: self.deleted_share,
            strewn: self.strewn_share,
            ..UpkeepOptions::default()
        }
    }

    /// How the engine builds the graph of this index.
    ///
    /// Of the parameters two are read, by the names that DiskANN gave them: `max_degree` and
    /// `search_list_size`. Those of other kinds of index (`M`, `nlist`) say nothing about this one.
    ///
    /// # Errors
    /// [`FieldIndexError::Parameter`].
    pub(crate) fn build(
        &self,
        metric: Metric,
        parameters: &Properties,
    ) -> Result<BuildOptions, FieldIndexError> {
        let mut options = BuildOptions::new(metric);
        options.overwrite = true;
        options.graph.threads = self.build_threads;
        if let Some(degree) = number(parameters, "max_degree", 8..=512)? {
            options.graph.degree = degree;
        }
        if let Some(list) = number(parameters, "search_list_size", 8..=4096)? {
            options.graph.list = list;
        }
        Ok(options)
    }
}

fn number(
    parameters: &Properties,
    name: &'static str,
    range: std::ops::RangeInclusive<usize>,
) -> Result<Option<usize>, FieldIndexError> {
    let Some(value) = parameters.get(name) else { return Ok(None) };
    match value.parse() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => {
            let why = match name {
                "max_degree" => "a number from 8 to 512 is needed",
                _ => "a number from 8 to 4096 is needed",
            };
            Err(FieldIndexError::Parameter { name, value: value.clone(), why })
        }
    }
}

/// Whether an index of this definition has a graph; an index of kind `FLAT` is an exact scan.
pub fn has_graph(definition: &IndexDefinition) -> bool {
    definition.metric.is_some() && !is_exact_kind(&definition.kind)
}
