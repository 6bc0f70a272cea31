//! Matrices of numpy as sets of vectors, borrowed.

use numpy::{PyReadonlyArray2, PyUntypedArray, PyUntypedArrayMethods};
use pipeann_engine::types::{VectorSet, VectorType};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A C-contiguous matrix, borrowed as its bytes.
pub(crate) struct Matrix<'py> {
    bytes: PyReadonlyArray2<'py, u8>,
    ty: VectorType,
}

impl<'py> Matrix<'py> {
    /// Borrows an array. `wanted` decides where numpy has no type of its own: bits stand in uint8,
    /// eight to an entry, and bfloat16 in uint16.
    pub(crate) fn new(array: &Bound<'py, PyAny>, wanted: Option<VectorType>) -> PyResult<Self> {
        let untyped = array.cast::<PyUntypedArray>().map_err(|_| {
            PyTypeError::new_err("expected a numpy array of shape (rows, dimension)")
        })?;
        if untyped.ndim() != 2 {
            let message =
                format!("expected shape (rows, dimension), found {} dimensions", untyped.ndim());
            return Err(PyValueError::new_err(message));
        }
        if !untyped.is_c_contiguous() {
            let message = "expected a C-contiguous array; pass numpy.ascontiguousarray(a)";
            return Err(PyValueError::new_err(message));
        }
        let dtype = untyped.dtype();
        let native = dtype.getattr("isnative")?.extract::<bool>()?;
        let name = dtype.getattr("name")?.extract::<String>()?;
        let ty = match (name.as_str(), wanted) {
            ("uint8", Some(VectorType::Binary)) => VectorType::Binary,
            ("uint16", Some(VectorType::BF16)) | ("bfloat16", _) => VectorType::BF16,
            ("float32", _) if native => VectorType::F32,
            ("float16", _) if native => VectorType::F16,
            ("uint8", _) => VectorType::U8,
            ("int8", _) => VectorType::I8,
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "expected dtype float32, float16, int8 or uint8, found {dtype}"
                )));
            }
        };
        let bytes = array.call_method1("view", ("uint8",))?;
        Ok(Self { bytes: bytes.extract::<PyReadonlyArray2<'py, u8>>()?, ty })
    }

    /// The rows.
    pub(crate) fn vectors(&self) -> PyResult<VectorSet<'_>> {
        let dim = self.ty.dim_of(self.bytes.shape()[1]);
        VectorSet::new(self.bytes.as_slice()?, dim, self.ty)
            .map_err(|e| PyValueError::new_err(e.to_string()))
    }
}

/// numpy's name of components of this type; bits stand in bytes.
pub(crate) fn dtype_name(ty: VectorType) -> &'static str {
    match ty {
        VectorType::F32 => "float32",
        VectorType::F16 => "float16",
        VectorType::BF16 => "bfloat16",
        VectorType::U8 | VectorType::Binary => "uint8",
        VectorType::I8 => "int8",
    }
}
