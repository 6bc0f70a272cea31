//! Vectors: numpy arrays to bytes and back, without a Python object for each component.

use numpy::{IntoPyArray, PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pipeann_db::value::VectorKind;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::numbers::{float, integer, single, wrong};

/// What numpy calls the components; bits stand eight to a byte. bfloat16 has no type of numpy's
/// own, so its upper halves are taken and given as uint16.
pub(super) fn dtype_name(kind: VectorKind) -> &'static str {
    match kind {
        VectorKind::Float => "float32",
        VectorKind::UInt8 | VectorKind::Binary => "uint8",
        VectorKind::Int8 => "int8",
        VectorKind::Float16 => "float16",
        VectorKind::BFloat16 => "uint16",
        VectorKind::Sparse => unreachable!("sparse vectors have no array"),
    }
}

/// The components of an array and their bytes, when its type is that of the vectors.
pub(super) fn array_bytes(
    kind: VectorKind,
    array: &Bound<'_, PyUntypedArray>,
) -> PyResult<Vec<u8>> {
    let found = array.dtype().getattr("name")?.extract::<String>()?;
    let wanted = dtype_name(kind);
    let bfloat = kind == VectorKind::BFloat16 && found == "bfloat16";
    if found != wanted && !bfloat {
        let message = format!(
            "expected dtype {wanted}, found {found}; pass array.astype(numpy.{wanted}) where \
             rounding is meant"
        );
        return Err(PyTypeError::new_err(message));
    }
    raw_bytes(array)
}

/// The bytes of an array in the machine's order, row by row.
pub(super) fn raw_bytes(array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<u8>> {
    let py = array.py();
    let numpy = py.import("numpy")?;
    let native = array.dtype().call_method1("newbyteorder", ("=",))?;
    let whole = numpy.call_method1("ascontiguousarray", (array, native))?;
    let flat = whole.call_method1("reshape", (-1,))?.call_method1("view", ("uint8",))?;
    let bytes: PyReadonlyArray1<'_, u8> = flat.extract()?;
    Ok(bytes.as_slice()?.to_vec())
}

/// Components of a row of so many entries: bits stand eight to an entry.
pub(super) fn dim_of(kind: VectorKind, entries: usize) -> usize {
    if kind == VectorKind::Binary { entries * 8 } else { entries }
}

/// The bytes of one dense vector: a one-dimensional array, bytes, or a list of numbers.
pub(super) fn one_dense(
    kind: VectorKind,
    dim: usize,
    object: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    let expected = kind.row_bytes(dim).expect("the vector is dense");
    let start = out.len();
    if let Ok(array) = object.cast::<PyUntypedArray>() {
        if array.ndim() != 1 {
            let message = format!("expected one dimension, found {}", array.ndim());
            return Err(PyValueError::new_err(message));
        }
        out.extend(array_bytes(kind, array)?);
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        out.extend_from_slice(bytes.as_bytes());
    } else {
        components(kind, object, out)?;
    }
    let found = out.len() - start;
    if found == expected {
        return Ok(());
    }
    let entries = |bytes: usize| bytes / kind.row_bytes(8).map_or(1, |eight| eight.div_ceil(8));
    Err(PyValueError::new_err(format!(
        "the vector has {} components, the field has dimension {dim}",
        dim_of(kind, entries(found))
    )))
}

fn components(kind: VectorKind, object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let items = object.try_iter().map_err(|_| wrong("a vector", object))?;
    for item in items {
        let item = item?;
        match kind {
            VectorKind::Float => out.extend(single(&item)?.to_le_bytes()),
            VectorKind::UInt8 | VectorKind::Binary => out.push(byte(&item)?),
            VectorKind::Int8 => {
                let wide = integer(&item)?;
                let narrow = i8::try_from(wide).map_err(|_| out_of(wide, "int8"))?;
                out.extend(narrow.to_le_bytes());
            }
            VectorKind::Float16 | VectorKind::BFloat16 => {
                let message = format!("give {kind} as a numpy array of {}", dtype_name(kind));
                return Err(PyTypeError::new_err(message));
            }
            VectorKind::Sparse => unreachable!("the vector is dense"),
        }
    }
    Ok(())
}

fn byte(item: &Bound<'_, PyAny>) -> PyResult<u8> {
    let wide = integer(item)?;
    u8::try_from(wide).map_err(|_| out_of(wide, "uint8"))
}

fn out_of(value: i64, range: &str) -> PyErr {
    PyValueError::new_err(format!("{value} is out of the range of {range}"))
}

/// The bytes of a sparse vector: a dict of index and value.
pub(super) fn one_sparse(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let dict = object.cast::<PyDict>().map_err(|_| wrong("a dict of index and value", object))?;
    let mut pairs = Vec::with_capacity(dict.len());
    for (index, value) in dict {
        let index = integer(&index)?;
        let index = u32::try_from(index).map_err(|_| out_of(index, "uint32"))?;
        // A NaN stays one, and is refused with field and row.
        let value = if float(&value)?.is_nan() { f32::NAN } else { single(&value)? };
        pairs.push((index, value));
    }
    pairs.sort_by_key(|(index, _)| *index);
    Ok(pairs.iter().flat_map(|(i, v)| [i.to_le_bytes(), v.to_le_bytes()]).flatten().collect())
}

/// Vectors as an array: of one dimension, or of `rows` rows.
pub(super) fn vector_to_python(
    py: Python<'_>,
    kind: VectorKind,
    bytes: Vec<u8>,
    rows: Option<usize>,
) -> PyResult<Bound<'_, PyAny>> {
    let flat = bytes.into_pyarray(py).call_method1("view", (dtype_name(kind),))?;
    match rows {
        None => Ok(flat),
        Some(0) => flat.call_method1("reshape", ((0, 0),)),
        Some(rows) => flat.call_method1("reshape", ((rows, -1),)),
    }
}
