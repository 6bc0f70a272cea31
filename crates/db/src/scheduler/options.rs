//! Settings of a scheduler.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// How searches are admitted and done.
#[derive(Clone)]
pub struct SchedulerOptions {
    /// Searches, or groups of them, that are done at once; at least 1.
    pub at_once: usize,
    /// Searches of one collection that may wait.
    pub line: usize,
    /// Searches of all collections that may wait.
    pub lines: usize,
    /// Bytes of query vectors that may wait. A search comes in, whatever its size, where none wait.
    pub bytes: usize,
    /// Whether searches that are alike are done together.
    pub merge: bool,
    /// What each thread does before its first search.
    pub enter: Arc<dyn Fn() + Send + Sync>,
    /// The time.
    pub clock: Arc<dyn Fn() -> Instant + Send + Sync>,
}

impl Default for SchedulerOptions {
    /// Two at once for each CPU; 4,096 may wait for a collection, four times as many for all, with
    /// 256 MiB of vectors; those that are alike are done together.
    fn default() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            at_once: 2 * cpus,
            line: 4096,
            lines: 4 * 4096,
            bytes: 256 << 20,
            merge: true,
            enter: Arc::new(|| ()),
            clock: Arc::new(Instant::now),
        }
    }
}

impl fmt::Debug for SchedulerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerOptions")
            .field("at_once", &self.at_once)
            .field("line", &self.line)
            .field("lines", &self.lines)
            .field("bytes", &self.bytes)
            .field("merge", &self.merge)
            .finish_non_exhaustive()
    }
}
