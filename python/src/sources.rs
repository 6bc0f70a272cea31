//! Vectors given to a build: an array of numpy, borrowed, or rows that come piece by piece.
//!
//! What they come in is read by `pipeann.sources`; here are only matrices.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use numpy::PyUntypedArray;
use pipeann_engine::build::{BuildOptions, Silent, SpooledRows, build, build_limited};
use pipeann_engine::types::{Metric, VectorSet, VectorType};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::index::{build_error, interruptible};
use crate::matrix::Matrix;

/// What a build was given.
pub(crate) struct Given<'py> {
    rows: Bound<'py, PyAny>,
    /// What uint8 and uint16 stand for, where that is known.
    wanted: Option<VectorType>,
}

impl<'py> Given<'py> {
    /// Finds out what `vectors` are; the names are of a column and of a dataset.
    pub(crate) fn new(
        vectors: &Bound<'py, PyAny>,
        names: (Option<&str>, Option<&str>),
        metric: Metric,
    ) -> PyResult<Self> {
        let sources = vectors.py().import("pipeann.sources")?;
        let rows = sources.call_method1("rows_of", (vectors, names.0, names.1))?;
        // Only bits are compared by some metrics.
        let bits = VectorType::Binary.takes_metric(metric).then_some(VectorType::Binary);
        let path = vectors.extract::<PathBuf>().ok();
        let named = path.and_then(|path| match path.extension()?.to_str()? {
            "bf16bin" => Some(VectorType::BF16),
            // By any other metric they are refused.
            "bbin" => Some(VectorType::Binary),
            _ => None,
        });
        Ok(Self { rows, wanted: bits.or(named) })
    }

    /// Builds an index of them, within `memory` bytes where that is given.
    pub(crate) fn build(
        &self,
        py: Python<'_>,
        memory: Option<u64>,
        dir: &Path,
        options: &BuildOptions,
    ) -> PyResult<()> {
        let cancel = &AtomicBool::new(false);
        let built = if self.rows.cast::<PyUntypedArray>().is_ok() {
            let matrix = Matrix::new(&self.rows, self.wanted)?;
            let set = matrix.vectors()?;
            interruptible(py, cancel, || match memory {
                None => build(set, dir, options, &Silent, cancel),
                Some(limit) => build_limited(&set, limit, dir, options, &Silent, cancel),
            })
        } else if let Some(limit) = memory {
            let rows = self.spooled(dir)?;
            interruptible(py, cancel, || build_limited(&rows, limit, dir, options, &Silent, cancel))
        } else {
            let (bytes, (dim, ty)) = self.collected()?;
            let set = vectors_of(&bytes, dim, ty)?;
            interruptible(py, cancel, || build(set, dir, options, &Silent, cancel))
        };
        built.map(|_| ())
    }

    /// All rows, in memory.
    fn collected(&self) -> PyResult<(Vec<u8>, (usize, VectorType))> {
        let mut bytes = Vec::new();
        let shape = self.each(|set| {
            bytes.extend_from_slice(set.bytes());
            Ok(())
        })?;
        Ok((bytes, shape))
    }

    /// All rows, in a file beside the index.
    fn spooled(&self, dir: &Path) -> PyResult<SpooledRows> {
        let mut spooled = None;
        self.each(|set| {
            let rows = match spooled.take() {
                Some(rows) => rows,
                None => {
                    SpooledRows::create(dir, set.dim(), set.vector_type()).map_err(build_error)?
                }
            };
            spooled.insert(rows).push(set).map_err(build_error)
        })?;
        spooled.ok_or_else(no_rows)
    }

    /// Hands out all pieces, and returns the shape that they have.
    fn each(
        &self,
        mut take: impl FnMut(VectorSet<'_>) -> PyResult<()>,
    ) -> PyResult<(usize, VectorType)> {
        let mut shape = None;
        for piece in self.rows.try_iter()? {
            let matrix = Matrix::new(&piece?, self.wanted)?;
            let set = matrix.vectors()?;
            let (dim, ty) = *shape.get_or_insert((set.dim(), set.vector_type()));
            if (set.dim(), set.vector_type()) != (dim, ty) {
                let message = format!(
                    "a piece has rows of {} {} components, those before it of {dim} {ty}",
                    set.dim(),
                    set.vector_type()
                );
                return Err(PyValueError::new_err(message));
            }
            take(set)?;
        }
        shape.ok_or_else(no_rows)
    }
}

fn vectors_of(bytes: &[u8], dim: usize, ty: VectorType) -> PyResult<VectorSet<'_>> {
    VectorSet::new(bytes, dim, ty).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn no_rows() -> PyErr {
    PyValueError::new_err("the input has no vectors; an index needs at least one")
}
