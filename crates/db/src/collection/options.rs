//! Settings of a collection.

use std::sync::Arc;

use pipeann_engine::memory::Accountant;

use crate::field_index::GraphOptions;
use crate::wal::LogOptions;

/// How a collection is opened.
#[derive(Clone, Debug)]
pub struct CollectionOptions {
    /// When writes are answered, and how the log is cut into files.
    pub log: LogOptions,
    /// Bytes of log since the last flush from which on a write flushes first. Bounds the log on
    /// disk and the replay on opening.
    pub flush_log_bytes: u64,
    /// Whether a flush that is due runs beside the writes, on a thread of its own, and not before one of
    /// them. A client that sends one batch after the other is answered sooner, and takes another core.
    pub flush_behind: bool,
    /// Bytes of rows that may wait for a flush.
    pub row_buffer_bytes: u64,
    /// Bytes of vectors that may wait for a flush, for each vector field.
    pub tail_bytes: u64,
    /// Bytes of scalar indexes that may wait for a flush.
    pub scalar_buffer_bytes: u64,
    /// Threads of a search, the caller's included; at least 1.
    pub search_threads: usize,
    /// How graphs are built and kept.
    pub graph: GraphOptions,
    /// Whether the first search of a field has the graph of its index built, where nobody has asked
    /// for it. It and those that follow are exact until the graph is there.
    pub build_on_read: bool,
    /// Who grants the memory.
    pub accountant: Arc<Accountant>,
}

impl Default for CollectionOptions {
    /// The log syncs, is flushed at 256 MiB and before writes; 32 MiB for each buffer; one thread; the
    /// accountant of the process.
    fn default() -> Self {
        Self {
            log: LogOptions::default(),
            flush_log_bytes: 256 << 20,
            flush_behind: false,
            row_buffer_bytes: 32 << 20,
            tail_bytes: 32 << 20,
            scalar_buffer_bytes: 32 << 20,
            search_threads: 1,
            graph: GraphOptions::default(),
            build_on_read: false,
            accountant: Accountant::process(),
        }
    }
}
