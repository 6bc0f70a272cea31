//! `pipeann.Index`: build, open and search with numpy arrays.

use std::fmt::Display;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2};
use pipeann_engine::build::{self, BuildError, BuildOptions, DiskannIndex, Silent};
use pipeann_engine::filter::AllowSet;
use pipeann_engine::index::{
    self, Answer, BatchOptions, OpenError, OpenOptions, QueryError, Resident,
};
use pipeann_engine::io::BackendChoice;
use pipeann_engine::memory::Accountant;
use pipeann_engine::search::{
    DistanceRange, Hit, ParamError, Policy, SearchParams, SearchStats, Width,
};
use pipeann_engine::types::{ErrorClass, RowId};
use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyKeyboardInterrupt, PyMemoryError, PyOSError,
    PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::matrix::{Matrix, dtype_name};
use crate::sizes::Size;
use crate::sources::Given;

/// Longest wait for pages, where none is given; and how long it goes on between looks at signals.
const A_YEAR: Duration = Duration::from_secs(365 * 86_400);
const PART: Duration = Duration::from_millis(100);

/// An error of this class as the exception that Python's users expect.
fn exception(class: ErrorClass, message: String) -> PyErr {
    match class {
        ErrorClass::FixInput => PyValueError::new_err(message),
        ErrorClass::Retry | ErrorClass::Stop => PyOSError::new_err(message),
    }
}

fn open_error(e: OpenError) -> PyErr {
    match &e {
        OpenError::NoIndex(_) => PyFileNotFoundError::new_err(e.to_string()),
        OpenError::Memory(_) => PyMemoryError::new_err(e.to_string()),
        _ => exception(e.class(), e.to_string()),
    }
}

fn query_error(e: QueryError) -> PyErr {
    match &e {
        QueryError::Type { .. } => PyTypeError::new_err(e.to_string()),
        QueryError::Forked { .. } => PyRuntimeError::new_err(e.to_string()),
        _ => exception(e.class(), e.to_string()),
    }
}

pub(crate) fn build_error(e: BuildError) -> PyErr {
    match &e {
        BuildError::Exists { .. } => PyFileExistsError::new_err(e.to_string()),
        BuildError::Cancelled(_) => PyKeyboardInterrupt::new_err(e.to_string()),
        BuildError::MemoryLimit { .. } => PyMemoryError::new_err(e.to_string()),
        _ => exception(e.class(), e.to_string()),
    }
}

/// A value by its name.
fn parsed<T: FromStr<Err: Display>>(name: &str) -> PyResult<T> {
    name.parse().map_err(|e: T::Err| PyValueError::new_err(e.to_string()))
}

/// Builds on a thread of its own while this one looks for signals, which Python hands to the
/// thread that called and to no other. What a handler raises (Ctrl-C: `KeyboardInterrupt`) ends
/// the build through `cancel`.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    cancel: &AtomicBool,
    build: impl FnOnce() -> Result<T, BuildError> + Send,
) -> PyResult<T> {
    let caller = std::thread::current();
    std::thread::scope(|scope| {
        let named = std::thread::Builder::new().name("pipeann-build".to_owned());
        let begun = named.spawn_scoped(scope, move || {
            let built = build();
            caller.unpark();
            built
        })?;
        let mut raised = None;
        while !begun.is_finished() {
            py.detach(|| std::thread::park_timeout(PART));
            if let Err(e) = py.check_signals() {
                cancel.store(true, Ordering::Relaxed);
                raised.get_or_insert(e);
            }
        }
        let built = begun.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        raised.map_or_else(|| built.map_err(build_error), Err)
    })
}

fn policy(name: &str, width: Option<u16>, max_width: u16) -> PyResult<Policy> {
    let mut policy: Policy =
        name.parse().map_err(|e: ParamError| PyValueError::new_err(e.to_string()))?;
    match (width, &mut policy.width) {
        (Some(w), to) => *to = Width::Fixed(w),
        (None, Width::Dynamic { max, .. }) => *max = max_width,
        (None, _) => {}
    }
    Ok(policy)
}

/// An index on disk, opened for searching. Thread-safe: threads may share it.
#[pyclass(frozen, module = "pipeann", name = "Index")]
pub(crate) struct PyIndex {
    inner: index::Index,
    totals: std::sync::Mutex<(u64, SearchStats)>,
}

#[pymethods]
impl PyIndex {
    /// Builds an index over `vectors` in the directory `path` and opens it.
    #[staticmethod]
    #[pyo3(signature = (path, vectors, metric="l2", *, column=None, dataset=None, memory=None,
        degree=64, list_length=96, alpha=1.2,
        codes="pq", code_bytes=None, threads=0, partitions=1, partition_by="graph",
        seed=42, overwrite=false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn build(
        py: Python<'_>,
        path: PathBuf,
        vectors: &Bound<'_, PyAny>,
        metric: &str,
        column: Option<&str>,
        dataset: Option<&str>,
        memory: Option<Size>,
        degree: usize,
        list_length: usize,
        alpha: f32,
        codes: &str,
        code_bytes: Option<usize>,
        threads: usize,
        partitions: usize,
        partition_by: &str,
        seed: u64,
        overwrite: bool,
    ) -> PyResult<Self> {
        let mut options = BuildOptions::new(parsed(metric)?);
        options.graph.degree = degree;
        options.graph.list = list_length;
        options.graph.alpha = alpha;
        options.graph.threads = threads;
        options.graph.seed = seed;
        options.codes = parsed(codes)?;
        options.code_bytes = code_bytes;
        options.partitions = partitions;
        options.partition_by = parsed(partition_by)?;
        options.overwrite = overwrite;
        let given = Given::new(vectors, (column, dataset), options.metric)?;
        given.build(py, memory.map(|size| size.0), &path, &options)?;
        Self::open(py, path, None, true, true, "auto", None)
    }

    /// Makes an index in the directory `path` of one that DiskANN has built, and opens it.
    #[staticmethod]
    #[pyo3(signature = (path, prefix, *, metric=None, dtype=None, codes="pq", code_bytes=None,
        threads=0, partitions=1, partition_by="graph",
        seed=42, overwrite=false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn import_diskann(
        py: Python<'_>,
        path: PathBuf,
        prefix: PathBuf,
        metric: Option<&str>,
        dtype: Option<&str>,
        codes: &str,
        code_bytes: Option<usize>,
        threads: usize,
        partitions: usize,
        partition_by: &str,
        seed: u64,
        overwrite: bool,
    ) -> PyResult<Self> {
        let (metric, ty) = (metric.map(parsed).transpose()?, dtype.map(parsed).transpose()?);
        let from = DiskannIndex::open(&prefix, ty, metric).map_err(build_error)?;
        let mut options = BuildOptions::new(from.metric());
        options.graph.threads = threads;
        options.graph.seed = seed;
        options.codes = parsed(codes)?;
        options.code_bytes = code_bytes;
        options.partitions = partitions;
        options.partition_by = parsed(partition_by)?;
        options.overwrite = overwrite;
        let cancel = AtomicBool::new(false);
        interruptible(py, &cancel, || {
            build::import_diskann(&from, &path, &options, &Silent, &cancel)
        })?;
        Self::open(py, path, None, true, true, "auto", None)
    }

    /// Opens the index in the directory `path`.
    #[staticmethod]
    #[pyo3(signature = (path, *, memory_limit=None, warm=true, direct=true, backend="auto",
        spdk_config=None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        memory_limit: Option<Size>,
        warm: bool,
        direct: bool,
        backend: &str,
        spdk_config: Option<PathBuf>,
    ) -> PyResult<Self> {
        let choice: BackendChoice = parsed(backend)?;
        let backend = py.detach(|| choice.backend(spdk_config.as_deref()));
        let backend = backend.map_err(|e| open_error(e.into()))?;
        let accountant = match memory_limit {
            Some(Size(limit)) => Accountant::new(Some(limit)),
            None => Accountant::process(),
        };
        let options = OpenOptions {
            backend: Some(backend),
            direct,
            accountant,
            resident: Resident::Remaining,
            warm,
            ..Default::default()
        };
        let opened = py.detach(|| {
            let index = index::Index::open(&path, &options)?;
            // Searches read from where pages will stay.
            index.backend().wait_copied(&mut |_| ());
            Ok(index)
        });
        let inner = opened.map_err(open_error)?;
        Ok(Self { inner, totals: std::sync::Mutex::default() })
    }

    /// Searches a batch of queries.
    #[pyo3(signature = (queries, k=10, *, list_length=64, policy="pipe", width=None, max_width=32,
        threads=1, in_flight=None, allowed=None, within=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyAny>,
        k: usize,
        list_length: usize,
        policy: &str,
        width: Option<u16>,
        max_width: u16,
        threads: usize,
        in_flight: Option<usize>,
        allowed: Option<&Bound<'py, PyAny>>,
        within: Option<(Option<f32>, Option<f32>)>,
    ) -> PyResult<IdsAndDistances<'py>> {
        let matrix = Matrix::new(queries, Some(self.inner.layout().vector_type()))?;
        let set = matrix.vectors()?;
        let policy = self::policy(policy, width, max_width)?;
        let (from, to) = within.unwrap_or_default();
        let within = DistanceRange {
            from: from.map_or(Unbounded, Included),
            to: to.map_or(Unbounded, Excluded),
        };
        let list = list_length.max(k);
        let params = SearchParams { k, list, within, policy, ..SearchParams::default() };
        let allow = allowed.map(|rows| self.allow_set(py, rows)).transpose()?;
        // A few queries are answered soonest side by side on few threads; a batch interleaved.
        let in_flight = in_flight.unwrap_or(if set.rows() > 1 { 8 } else { 1 });
        let options = BatchOptions { threads, in_flight, allow };
        let answers =
            py.detach(|| self.inner.search_batch(set, &params, &options)).map_err(query_error)?;
        self.count(&answers);
        let (ids, distances) = tables(&answers, k);
        Ok((ids.into_pyarray(py), distances.into_pyarray(py)))
    }

    /// Changes the memory limit while searches go on.
    #[pyo3(signature = (limit))]
    fn set_memory_limit(&self, py: Python<'_>, limit: Option<Size>) -> PyResult<()> {
        let limit = limit.map(|size| size.0);
        py.detach(|| self.inner.set_memory_limit(limit))
            .map_err(|e| PyMemoryError::new_err(e.to_string()))
    }

    /// Waits until no page is being read ahead of searches.
    #[pyo3(signature = (timeout=None))]
    fn wait_warm(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let at_most = match timeout {
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .map_err(|e| PyValueError::new_err(format!("timeout {seconds}: {e}")))?,
            None => A_YEAR,
        };
        let until = Instant::now() + at_most.min(A_YEAR);
        // In parts, so that an interrupt ends it.
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if py.detach(|| self.inner.wait_warm(left.min(PART))) {
                return Ok(true);
            }
            py.check_signals()?;
            if left <= PART {
                return Ok(false);
            }
        }
    }

    /// Counts and sizes, as a dictionary.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        let layout = self.inner.layout();
        out.set_item("rows", self.inner.rows())?;
        out.set_item("pages", self.inner.pages())?;
        out.set_item("page_bytes", layout.page_bytes())?;
        out.set_item("records_per_page", layout.records_per_page())?;
        let held = self.inner.page_stats();
        out.set_item("resident_pages", held.resident)?;
        out.set_item("resident_bytes", held.resident_bytes())?;
        out.set_item("resident_room", held.room)?;
        out.set_item("pages_displaced", held.displaced)?;
        out.set_item("pages_warmed", held.warmed)?;
        out.set_item("pages_unreadable", held.unreadable)?;
        out.set_item("warming", held.warming)?;
        out.set_item("pages_from_memory", held.from_memory)?;
        out.set_item("share_from_memory", held.share_from_memory())?;
        out.set_item("memory_limit", self.inner.accountant().limit_bytes())?;
        out.set_item("backend", self.inner.backend().name())?;
        let memory = PyDict::new(py);
        for (pool, bytes) in self.inner.pools() {
            memory.set_item(pool.name(), bytes)?;
        }
        out.set_item("memory_bytes", memory)?;
        let (queries, totals) = *self.totals.lock().expect("no holder of this lock panics");
        out.set_item("queries", queries)?;
        for (name, value) in [
            ("reads", totals.reads),
            ("reads_shared", totals.reads_shared),
            ("reads_wasted", totals.reads_wasted),
            ("bytes_read", totals.bytes_read),
            ("hops", totals.hops),
            ("code_distances", totals.code_distances),
            ("exact_distances", totals.exact_distances),
            ("compute_ns", totals.compute_ns),
            ("wait_ns", totals.wait_ns()),
        ] {
            out.set_item(name, value)?;
        }
        Ok(out)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.inner.rows()).unwrap_or(usize::MAX)
    }

    /// Components of a vector.
    #[getter]
    fn dim(&self) -> usize {
        self.inner.dim()
    }

    /// "l2", "ip", "cosine", "hamming" or "jaccard".
    #[getter]
    fn metric(&self) -> &'static str {
        self.inner.metric().name()
    }

    /// numpy's name of the component type.
    #[getter]
    fn dtype(&self) -> &'static str {
        dtype_name(self.inner.layout().vector_type())
    }

    fn __repr__(&self) -> String {
        format!(
            "Index(path={:?}, rows={}, dim={}, dtype={}, metric={})",
            self.inner.path(),
            self.inner.rows(),
            self.inner.dim(),
            self.dtype(),
            self.metric()
        )
    }
}

impl PyIndex {
    fn allow_set(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<Arc<AllowSet>> {
        let rows: Vec<u64> = rows.extract().map_err(|_| {
            PyTypeError::new_err("expected `allowed` to be a sequence of non-negative row ids")
        })?;
        let rows: Vec<RowId> = rows.into_iter().map(RowId).collect();
        let set = py.detach(|| self.inner.allow_rows(&rows)).map_err(query_error)?;
        Ok(Arc::new(set))
    }

    fn count(&self, answers: &[Answer]) {
        let mut totals = self.totals.lock().expect("no holder of this lock panics");
        totals.0 += answers.len() as u64;
        for answer in answers {
            totals.1 += answer.stats;
        }
    }
}

/// What `search` returns: ids and distances, a row for each query.
pub(crate) type IdsAndDistances<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyArray2<f32>>);

/// Row ids and distances as matrices of `k` columns; where there are fewer hits, id -1 and
/// infinity fill the rest.
fn tables(answers: &[Answer], k: usize) -> (Array2<i64>, Array2<f32>) {
    let mut ids = Array2::from_elem((answers.len(), k), -1);
    let mut distances = Array2::from_elem((answers.len(), k), f32::INFINITY);
    for (i, answer) in answers.iter().enumerate() {
        for (j, &Hit { row, distance, .. }) in answer.hits.iter().take(k).enumerate() {
            ids[[i, j]] = i64::try_from(row.0).expect("row ids count rows");
            distances[[i, j]] = distance;
        }
    }
    (ids, distances)
}
