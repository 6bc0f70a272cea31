//! Building the graph of a field in bulk, from the vectors that stand in `flat`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pipeann_engine::build::{BuildOptions, Progress, SourceRows, Stage, build_rows, estimate};
use pipeann_engine::memory::{Accountant, Pool};
use pipeann_engine::types::VectorSet;
use roaring::RoaringTreemap;

use super::{FieldIndexError, GraphOptions};
use crate::catalog::Properties;
use crate::flat::{FlatError, FlatVectors};
use crate::ids::{Metric, RowId, Seq, VectorType};

/// What is to be built.
#[derive(Clone, Copy)]
pub struct BuildRequest<'a> {
    /// The vectors.
    pub vectors: &'a FlatVectors,
    /// Components of a vector.
    pub dim: usize,
    /// Type of the components.
    pub vector_type: VectorType,
    /// The rows that live.
    pub live: &'a RoaringTreemap,
    /// The last number of the log that was given out. No link of another graph of the field has a
    /// later one.
    pub applied: Seq,
    /// Whether codes have to serve rows of any length.
    pub any_scale: bool,
    /// How vectors are compared.
    pub metric: Metric,
    /// Parameters of the index.
    pub parameters: &'a Properties,
}

/// How far a build is, told by [`stage`](Self::stage) while it runs.
#[derive(Debug, Default)]
pub struct BuildProgress {
    stage: Mutex<Option<Stage>>,
    done: AtomicU64,
    total: AtomicU64,
    /// Raised by whoever wants the build to stop.
    pub cancel: AtomicBool,
}

impl BuildProgress {
    /// Name of the stage under way, steps done of it, and steps in all; `None` before the first.
    pub fn now(&self) -> Option<(&'static str, u64, u64)> {
        let stage = *self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        stage.map(|stage| (stage.name(), done.min(total), total))
    }

    /// Rows that are linked so far: none before the graph is begun, all after it.
    pub fn rows_done(&self, rows: u64) -> u64 {
        match *self.stage.lock().unwrap_or_else(PoisonError::into_inner) {
            None | Some(Stage::Check | Stage::Encode) => 0,
            Some(Stage::Graph) => {
                let total = self.total.load(Ordering::Relaxed).max(1);
                let done = self.done.load(Ordering::Relaxed).min(total);
                (rows as f64 * done as f64 / total as f64) as u64
            }
            Some(Stage::Order | Stage::Head | Stage::Write) => rows,
        }
    }
}

impl Progress for BuildProgress {
    fn stage(&self, stage: Stage, total: u64) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Some(stage);
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    fn advance(&self, n: u64) {
        self.done.fetch_add(n, Ordering::Relaxed);
    }
}

/// Builds the graph of all live rows in `dir`, in place of one that may stand there and that stays
/// usable until then. Returns the number of rows in it; 0, and no graph, where no row can be in it.
///
/// Memory for the build is reserved: the vectors twice, and what the builder needs.
///
/// # Errors
/// [`FieldIndexError`]; what stood in `dir` is as before.
pub fn build(
    request: &BuildRequest<'_>,
    dir: &Path,
    (options, accountant): (&GraphOptions, &Arc<Accountant>),
    progress: &BuildProgress,
) -> Result<u64, FieldIndexError> {
    let settings = BuildOptions {
        any_scale: request.any_scale,
        ..options.build(request.metric, request.parameters)?
    };
    let (dim, vector_type) = (request.dim, request.vector_type);
    let row_bytes = vector_type.vector_bytes(dim);
    let rows = request.live.len();
    let cost = estimate(rows.max(1), dim, vector_type, &settings)?;
    let bytes = rows * row_bytes as u64;
    let _held = accountant.reserve(Pool::Pending, cost.peak_memory_bytes + bytes)?;
    let (ids, vectors) = gather(request, usize::try_from(bytes).unwrap_or(0))?;
    if ids.is_empty() {
        return Ok(0);
    }
    let source = VectorSet::new(&vectors, dim, vector_type).expect("whole vectors were gathered");
    let parent = dir.parent().expect("a graph has a directory of its own inside another");
    std::fs::create_dir_all(parent).map_err(FieldIndexError::directory("create", parent))?;
    let rows = SourceRows { ids: &ids, applied: request.applied.0 };
    Ok(build_rows(source, rows, dir, &settings, progress, &progress.cancel)?.rows)
}

/// The live rows, ascending, with their vectors.
fn gather(
    request: &BuildRequest<'_>,
    bytes: usize,
) -> Result<(Vec<RowId>, Vec<u8>), FieldIndexError> {
    let mut ids = Vec::with_capacity(usize::try_from(request.live.len()).unwrap_or(0));
    let mut vectors = Vec::with_capacity(bytes);
    request.vectors.scan(|rows, set| {
        for (i, &row) in rows.iter().enumerate() {
            if request.live.contains(row.0) {
                ids.push(row);
                vectors.extend_from_slice(set.row(i));
            }
        }
        Ok::<(), FlatError>(())
    })?;
    debug_assert!(ids.is_sorted(), "vectors are appended in the order of their rows");
    Ok((ids, vectors))
}
