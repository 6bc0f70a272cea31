//! Sizes that Python gives: numbers of bytes, or texts as the command line takes them.

use pipeann_engine::memory::MemoryLimit;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Bytes, as a number or as `512MiB`.
pub(crate) struct Size(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Size {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Ok(text) = given.extract::<String>() else {
            return given.extract().map(Self).map_err(|_| {
                let found =
                    given.repr().map_or_else(|_| String::new(), |repr| format!(", not {repr}"));
                PyTypeError::new_err(format!(
                    "a size is a number of bytes, or a text as 512MiB{found}"
                ))
            });
        };
        MemoryLimit::parse_bytes(&text).map(Self).ok_or_else(|| {
            let why = format!("`{text}` is no size; expected bytes, or a text as 512MiB or 1GiB");
            PyValueError::new_err(why)
        })
    }
}
