//! Single values: Python objects to values of a field and back.

use pipeann_db::value::{Array, ArrayRef, DataType, ScalarType, Value, ValueRef, VectorKind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PyString};

use super::numbers::{float, integer, single, wrong};
use super::vectors::vector_to_python;

/// Python's own functions that values pass through.
struct Helpers {
    dumps: Py<PyAny>,
    loads: Py<PyAny>,
    /// An aware datetime to microseconds, and back.
    to_us: Py<PyAny>,
    from_us: Py<PyAny>,
}

static HELPERS: PyOnceLock<Helpers> = PyOnceLock::new();

fn helpers(py: Python<'_>) -> PyResult<&Helpers> {
    HELPERS.get_or_try_init(py, || {
        let own = py.import("pipeann._values")?;
        let get = |name: &str| own.getattr(name).map(Bound::unbind);
        Ok(Helpers {
            dumps: get("dumps")?,
            loads: get("loads")?,
            to_us: get("to_us")?,
            from_us: get("from_us")?,
        })
    })
}

/// A text.
pub(super) fn text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    object.cast::<PyString>().map_err(|_| wrong("a str", object))?.extract()
}

/// An instant, in microseconds since 1970: an aware datetime, or such an integer.
pub(super) fn timestamp(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    helpers(object.py())?.to_us.bind(object.py()).call1((object,))?.extract()
}

/// The JSON text of an object; bytes are such a text already.
pub(super) fn json(object: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        let text = String::from_utf8(bytes.as_bytes().to_vec());
        return text.map_err(|error| PyValueError::new_err(error.to_string()));
    }
    helpers(object.py())?.dumps.bind(object.py()).call1((object,))?.extract()
}

/// The object of a JSON text.
pub(crate) fn json_text_to_python<'py>(
    py: Python<'py>,
    text: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    helpers(py)?.loads.bind(py).call1((PyBytes::new(py, text),))
}

/// A scalar of a type, from anything but None.
pub(super) fn scalar(wanted: ScalarType, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    Ok(match wanted {
        ScalarType::Bool => Value::Bool(boolean(object)?),
        ScalarType::Int8 | ScalarType::Int16 | ScalarType::Int32 | ScalarType::Int64 => {
            let wide = integer(object)?;
            let fitting = ValueRef::Int64(wide).with_type(wanted).ok_or_else(|| {
                PyValueError::new_err(format!("{wide} is out of the range of {wanted}"))
            })?;
            fitting.to_value()
        }
        ScalarType::Float => Value::Float(single(object)?),
        ScalarType::Double => Value::Double(float(object)?),
        ScalarType::Timestamptz => Value::Timestamptz(timestamp(object)?),
        ScalarType::VarChar => Value::VarChar(text(object)?),
    })
}

/// True or false, also numpy's.
pub(super) fn boolean(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.extract().map_err(|_| wrong("a bool", object))
}

/// An array, from a list, a tuple or a one-dimensional numpy array.
pub(super) fn array(element: ScalarType, object: &Bound<'_, PyAny>) -> PyResult<Array> {
    if object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() {
        return Err(wrong("a list", object));
    }
    let values =
        object.try_iter().map_err(|_| wrong("a list", object))?.enumerate().map(|(at, item)| {
            let item = item?;
            scalar(element, &item).map_err(|error| {
                PyTypeError::new_err(format!("element {at}: {}", error.value(item.py())))
            })
        });
    let values: Vec<Value> = values.collect::<PyResult<_>>()?;
    let array = Array::collect(element, values.iter().map(Value::as_ref));
    array.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A value of a field as a Python object.
pub(super) fn to_python<'py>(
    py: Python<'py>,
    data_type: DataType,
    value: ValueRef<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    match value {
        ValueRef::Null => Ok(py.None().into_bound(py)),
        ValueRef::Bool(v) => Ok(PyBool::new(py, v).to_owned().into_any()),
        ValueRef::Int8(v) => Ok(v.into_pyobject(py)?.into_any()),
        ValueRef::Int16(v) => Ok(v.into_pyobject(py)?.into_any()),
        ValueRef::Int32(v) => Ok(v.into_pyobject(py)?.into_any()),
        ValueRef::Int64(v) => Ok(v.into_pyobject(py)?.into_any()),
        ValueRef::Float(v) => Ok(v.into_pyobject(py)?.into_any()),
        ValueRef::Double(v) => Ok(v.into_pyobject(py)?.into_any()),
        ValueRef::Timestamptz(v) => helpers(py)?.from_us.bind(py).call1((v,)),
        ValueRef::VarChar(v) => Ok(PyString::new(py, v).into_any()),
        ValueRef::Json(v) => helpers(py)?.loads.bind(py).call1((v,)),
        ValueRef::Array(v) => array_to_python(py, v),
        ValueRef::Vector(v) => match data_type {
            DataType::Vector(VectorKind::Sparse) => sparse_to_python(py, v),
            DataType::Vector(kind) => vector_to_python(py, kind, v.to_vec(), None),
            other => unreachable!("a {other} holds no vector"),
        },
    }
}

fn array_to_python<'py>(py: Python<'py>, array: ArrayRef<'_>) -> PyResult<Bound<'py, PyAny>> {
    let element = DataType::Scalar(array.element());
    let items: PyResult<Vec<_>> = array.iter().map(|item| to_python(py, element, item)).collect();
    Ok(PyList::new(py, items?)?.into_any())
}

fn sparse_to_python<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let pairs = PyDict::new(py);
    for &[i0, i1, i2, i3, v0, v1, v2, v3] in bytes.as_chunks::<8>().0 {
        let index = u32::from_le_bytes([i0, i1, i2, i3]);
        pairs.set_item(index, f32::from_le_bytes([v0, v1, v2, v3]))?;
    }
    Ok(pairs.into_any())
}
