//! The native half of the Python package `pipeann`, imported as `pipeann._native`.
//!
//! It converts numpy arrays to slices and errors to exceptions, and releases the GIL around work.
//! It adds no capability: whatever Python can do, the engine or the database can. What it offers is
//! described for Python's type checkers in `python/pipeann/_native.pyi`.

mod cluster;
mod database;
mod index;
mod matrix;
mod milvus;
mod sizes;
mod sources;

use std::ffi::OsString;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The native half of pipeann; import `pipeann` instead.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::cluster::PyClusterClient;
    #[pymodule_export]
    use super::database::{PyCollection, PyDatabase};
    #[pymodule_export]
    use super::index::PyIndex;
    #[pymodule_export]
    use super::milvus::MilvusDoor;

    /// Becomes the server until it is interrupted; see `pipeann.server`.
    #[pyfunction]
    fn serve(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<()> {
        py.detach(|| pipeann_server::run_with(arguments)).map_err(PyRuntimeError::new_err)
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
