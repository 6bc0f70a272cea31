//! Bulk loads from Python objects: anything with `rows`, `identity`, `seek` and `next`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_db::bulk::{
    self, BatchSource, LoadError, LoadOptions, LoadProgress, LoadWatch, SourceError,
};
use pipeann_db::ids::ErrorClass;
use pipeann_db::schema::{Batch, Schema};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::batches::batch;
use super::collection::PyCollection;
use super::failure::PyFailure;

/// Between two looks at an index that is being built.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// A source that Python reads.
pub(super) struct PythonSource {
    object: Py<PyAny>,
    schema: Arc<Schema>,
    rows: Option<u64>,
    identity: u128,
    at: u64,
}

impl PythonSource {
    fn new(object: &Bound<'_, PyAny>, schema: Arc<Schema>) -> PyResult<Self> {
        let rows = object.getattr("rows")?.extract()?;
        let identity = object.getattr("identity")?.extract()?;
        Ok(Self { object: object.clone().unbind(), schema, rows, identity, at: 0 })
    }
}

fn failed(error: PyErr) -> SourceError {
    SourceError { what: error.to_string(), class: ErrorClass::FixInput, cause: Some(error.into()) }
}

impl BatchSource for PythonSource {
    fn rows(&self) -> Option<u64> {
        self.rows
    }

    fn identity(&self) -> u128 {
        self.identity
    }

    fn seek(&mut self, row: u64) -> Result<(), SourceError> {
        self.at = row;
        let done = Python::attach(|py| self.object.call_method1(py, "seek", (row,)).map(drop));
        done.map_err(failed)
    }

    fn next(&mut self, most: usize) -> Result<Option<Batch>, SourceError> {
        let read = Python::attach(|py| {
            let next = self.object.bind(py).call_method1("next", (most,))?;
            if next.is_none() {
                return Ok(None);
            }
            batch(&self.schema, &next).map(Some).map_err(|error| in_source(py, error, self.at))
        });
        let read = read.map_err(failed)?;
        self.at += read.as_ref().map_or(0, |batch| batch.rows as u64);
        Ok(read)
    }
}

/// An error of a batch that begins with row `first` of the source, with the row of the source.
fn in_source(py: Python<'_>, error: PyErr, first: u64) -> PyErr {
    let value = error.value(py);
    let row = value.getattr("row").and_then(|row| row.extract::<Option<u64>>());
    let Ok(Some(row)) = row else { return error };
    let text = value.to_string();
    let (here, there) = (format!("row {row}"), format!("row {} of the source", first + row));
    let changed = value.get_type().call1((text.replacen(&here, &there, 1),));
    let changed = changed.and_then(|changed| {
        changed.setattr("row", first + row)?;
        changed.setattr("field", value.getattr("field")?)?;
        Ok(PyErr::from_value(changed))
    });
    changed.unwrap_or(error)
}

/// Tells Python of progress, and looks for Ctrl-C.
struct LoadingWatch {
    started: Instant,
    callback: Option<Py<PyAny>>,
    failed: Option<PyErr>,
}

impl LoadWatch for LoadingWatch {
    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn progress(&mut self, progress: &LoadProgress) -> ControlFlow<()> {
        let told = Python::attach(|py| {
            py.check_signals()?;
            let Some(callback) = &self.callback else { return Ok(()) };
            callback.call1(py, (progress_to_python(py, progress)?,)).map(drop)
        });
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn pause(&mut self) {
        std::thread::park_timeout(PAUSE);
    }
}

fn progress_to_python<'py>(
    py: Python<'py>,
    progress: &LoadProgress,
) -> PyResult<Bound<'py, PyAny>> {
    let index = progress.index.as_ref().map(|index| (&index.index, index.rows, index.total));
    py.import("pipeann._values")?.getattr("LoadProgress")?.call1((
        progress.rows,
        progress.resumed_at,
        progress.total,
        progress.rows_per_second,
        progress.left.map(|left| left.as_secs_f64()),
        index,
    ))
}

impl PyCollection {
    /// A source from whatever Python calls one.
    pub(super) fn source(
        &self,
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<PythonSource> {
        let opened = py.import("pipeann.bulk")?.call_method1("source_of", (object,))?;
        PythonSource::new(&opened, self.schema(py)?)
    }

    /// A load by the name given, or by that of its source and partition.
    pub(super) fn load_options(
        &self,
        py: Python<'_>,
        source: &PythonSource,
        name: Option<String>,
        partition: Option<String>,
    ) -> PyResult<LoadOptions> {
        match name {
            Some(name) => Ok(LoadOptions { partition, ..LoadOptions::new(name) }),
            None => self.run(py, |c| Ok(LoadOptions::of_source(c, source.identity, partition)?)),
        }
    }

    pub(super) fn load_source<'py>(
        &self,
        py: Python<'py>,
        mut source: PythonSource,
        options: &LoadOptions,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let report = self.run(py, |c| {
            let mut watch =
                LoadingWatch { started: Instant::now(), callback: progress, failed: None };
            bulk::load(c, &mut source, options, &mut watch).map_err(|error| {
                match (error, watch.failed.take()) {
                    (LoadError::Interrupted { .. }, Some(theirs)) => PyFailure::theirs(theirs),
                    (error, _) => error.into(),
                }
            })
        })?;
        py.import("pipeann._values")?.getattr("LoadReport")?.call1((
            &options.name,
            report.rows,
            report.resumed_at,
            report.logged_bytes,
            report.rows_time.as_secs_f64(),
            report.index_time.as_secs_f64(),
            report.indexes,
        ))
    }

    pub(super) fn estimate_rows<'py>(
        &self,
        py: Python<'py>,
        rows: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let estimate = self.run(py, |c| Ok(bulk::estimate(c, rows)?))?;
        let indexes = PyDict::new(py);
        for index in &estimate.indexes {
            let one = PyDict::new(py);
            one.set_item("cpu_seconds", index.cpu_seconds)?;
            one.set_item("memory_bytes", index.memory_bytes)?;
            one.set_item("disk_bytes", index.disk_bytes)?;
            indexes.set_item(&index.field, one)?;
        }
        py.import("pipeann._values")?.getattr("LoadEstimate")?.call1((
            estimate.rows,
            estimate.row_bytes,
            estimate.seconds,
            estimate.disk_bytes,
            estimate.memory_bytes,
            indexes,
        ))
    }
}
