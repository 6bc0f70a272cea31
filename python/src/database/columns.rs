//! Columns: what Python gives for one field and all rows.
//!
//! A numpy array of the field's type is taken as bytes. Anything else is gone through row by row:
//! lists, tuples, arrays of objects or of texts, and masked arrays, whose masked entries are null.

use numpy::{PyArrayDescrMethods, PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pipeann_db::schema::FieldSpec;
use pipeann_db::value::{
    Arrays, Blobs, Column, ColumnValues, DataType, DenseVectors, ScalarType, Texts, VectorKind,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::failure::PyFailure;
use super::vectors::{array_bytes, dim_of, one_dense, one_sparse, raw_bytes};
use super::{numbers, values};

/// The marker of numpy for no instant.
const NOT_A_TIME: i64 = i64::MIN;

/// The column of a field, of whatever stands for one.
pub(super) fn column(spec: &FieldSpec, object: &Bound<'_, PyAny>) -> PyResult<Column> {
    let failed = |error: PyErr| value_error(object.py(), &spec.name, None, error);
    if let Some(array) = plain_array(object).map_err(failed)?
        && let Some(column) = array_column(spec, &array).map_err(failed)?
    {
        return Ok(column);
    }
    column_of_items(spec, &items(object).map_err(failed)?)
}

/// The entries of a column, None where a row has none.
pub(super) type Items<'py> = Vec<Option<Bound<'py, PyAny>>>;

/// Goes through the rows.
pub(super) fn items<'py>(object: &Bound<'py, PyAny>) -> PyResult<Items<'py>> {
    let is_one = object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<PyDict>();
    if is_one {
        return Err(numbers::wrong("a list or an array with an entry for each row", object));
    }
    // Masked entries become None; numbers become Python's.
    let listed = if object.is_instance_of::<PyUntypedArray>() {
        object.call_method0("tolist")?
    } else {
        object.clone()
    };
    let entries = listed
        .try_iter()
        .map_err(|_| numbers::wrong("a list or an array with an entry for each row", object))?;
    entries.map(|item| item.map(|item| (!item.is_none()).then_some(item))).collect()
}

/// A numpy array without a mask; other things that know how to become one are asked to.
fn plain_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
    if let Ok(array) = object.cast::<PyUntypedArray>() {
        let masked = object.hasattr("mask")?;
        return Ok((!masked).then(|| array.clone()));
    }
    if !object.hasattr("__array__")? {
        return Ok(None);
    }
    let array = object.py().import("numpy")?.call_method1("asarray", (object,))?;
    Ok(array.cast_into::<PyUntypedArray>().ok())
}

/// The column of an array, or nothing where it is to be gone through.
fn array_column(spec: &FieldSpec, array: &Bound<'_, PyUntypedArray>) -> PyResult<Option<Column>> {
    let kind: String = array.dtype().getattr("kind")?.extract()?;
    if kind == "O" {
        return Ok(None);
    }
    let values = match spec.data_type {
        DataType::Vector(VectorKind::Sparse) | DataType::Json | DataType::Array(_) => {
            return Ok(None);
        }
        DataType::Vector(kind) => dense(kind, array)?,
        DataType::Scalar(ScalarType::VarChar) => return Ok(None),
        DataType::Scalar(scalar) => {
            let (values, valid) = scalars(scalar, &kind, array)?;
            let column = Column::new(&*spec.name, values);
            return Ok(Some(match valid {
                Some(valid) => column.with_validity(valid),
                None => column,
            }));
        }
    };
    Ok(Some(Column::new(&*spec.name, values)))
}

fn dense(kind: VectorKind, array: &Bound<'_, PyUntypedArray>) -> PyResult<ColumnValues> {
    let &[_, entries] = array.shape() else {
        let message = format!("expected shape (rows, dimension), found {:?}", array.shape());
        return Err(PyValueError::new_err(message));
    };
    let vectors = DenseVectors::new(kind, dim_of(kind, entries), array_bytes(kind, array)?);
    let vectors = vectors.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(ColumnValues::Dense(vectors))
}

/// Values, and which of them are none.
type Marked = (ColumnValues, Option<Vec<bool>>);

fn scalars(scalar: ScalarType, kind: &str, array: &Bound<'_, PyUntypedArray>) -> PyResult<Marked> {
    if array.ndim() != 1 {
        let message = format!("expected shape (rows,), found {:?}", array.shape());
        return Err(PyValueError::new_err(message));
    }
    let as_type = |name: &str| array.call_method1("astype", (name,));
    let values = match (scalar, kind) {
        (ScalarType::Bool, "b") => {
            ColumnValues::Bool(raw_bytes(array)?.into_iter().map(|byte| byte != 0).collect())
        }
        (
            ScalarType::Int8 | ScalarType::Int16 | ScalarType::Int32 | ScalarType::Int64,
            "i" | "u",
        ) => ColumnValues::Int64(integers(array)?),
        (ScalarType::Float, "f") if array.dtype().itemsize() <= 4 => {
            ColumnValues::Float(numbers(&as_type("float32")?)?)
        }
        (ScalarType::Double, "f") if array.dtype().itemsize() <= 8 => {
            ColumnValues::Double(numbers(&as_type("float64")?)?)
        }
        (ScalarType::Timestamptz, "M") => {
            let us = as_type("datetime64[us]")?.call_method1("view", ("int64",))?;
            let us: Vec<i64> = numbers(&us)?;
            let valid: Vec<bool> = us.iter().map(|&us| us != NOT_A_TIME).collect();
            let any_null = valid.contains(&false);
            return Ok((ColumnValues::Timestamptz(us), any_null.then_some(valid)));
        }
        (ScalarType::Timestamptz, "i") => ColumnValues::Timestamptz(integers(array)?),
        _ => {
            let found = array.dtype().getattr("name")?.extract::<String>()?;
            let message = format!("values of type {scalar} cannot be taken from dtype {found}");
            return Err(PyTypeError::new_err(message));
        }
    };
    Ok((values, None))
}

/// Integers of any width that fit 64 bits with their sign.
fn integers(array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<i64>> {
    if let Ok(wide) = array.extract::<PyReadonlyArray1<'_, u64>>() {
        let signed = wide.as_array().iter().map(|&v| i64::try_from(v)).collect::<Result<_, _>>();
        return signed.map_err(|_| PyValueError::new_err("a uint64 does not fit int64"));
    }
    numbers(&array.call_method1("astype", ("int64",))?)
}

fn numbers<T: numpy::Element + Copy>(array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    let array: PyReadonlyArray1<'_, T> = array.extract()?;
    Ok(array.as_array().iter().copied().collect())
}

/// The column of a field, row by row.
pub(super) fn column_of_items(
    spec: &FieldSpec,
    items: &[Option<Bound<'_, PyAny>>],
) -> PyResult<Column> {
    let valid: Vec<bool> = items.iter().map(Option::is_some).collect();
    let each = Each { field: &spec.name, items };
    let values = match spec.data_type {
        DataType::Scalar(scalar) => each.scalars(scalar)?,
        DataType::Json => ColumnValues::Json(each.collect::<String, Texts>(values::json)?),
        DataType::Array(element) => {
            let mut arrays = Arrays::new(element);
            let empty = pipeann_db::value::Array::collect(element, []);
            let empty = empty.map_err(|e| PyFailure::value(&spec.name, None, e))?;
            each.visit(|item| {
                arrays
                    .push(&item.map_or_else(|| Ok(empty.clone()), |i| values::array(element, i))?);
                Ok(())
            })?;
            ColumnValues::Array(arrays)
        }
        DataType::Vector(VectorKind::Sparse) => {
            ColumnValues::Sparse(each.collect::<Vec<u8>, Blobs>(one_sparse)?)
        }
        DataType::Vector(kind) => each.dense(kind, spec.dim.unwrap_or(0) as usize)?,
    };
    let column = Column::new(&*spec.name, values);
    Ok(if valid.contains(&false) { column.with_validity(valid) } else { column })
}

/// The rows of a column.
struct Each<'a, 'py> {
    field: &'a str,
    items: &'a [Option<Bound<'py, PyAny>>],
}

impl<'py> Each<'_, 'py> {
    /// Calls `take` for each row in turn, and says which row it was that failed.
    fn visit(
        &self,
        mut take: impl FnMut(Option<&Bound<'py, PyAny>>) -> PyResult<()>,
    ) -> PyResult<()> {
        for (row, item) in self.items.iter().enumerate() {
            if let Err(error) = take(item.as_ref()) {
                return Err(match item {
                    Some(item) => value_error(item.py(), self.field, Some(row), error),
                    None => error,
                });
            }
        }
        Ok(())
    }

    fn collect<T: Default, C: FromIterator<T>>(
        &self,
        convert: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> PyResult<C> {
        let mut all = Vec::with_capacity(self.items.len());
        self.visit(|item| {
            all.push(item.map(&convert).transpose()?.unwrap_or_default());
            Ok(())
        })?;
        Ok(all.into_iter().collect())
    }

    fn scalars(&self, scalar: ScalarType) -> PyResult<ColumnValues> {
        Ok(match scalar {
            ScalarType::Bool => ColumnValues::Bool(self.collect(values::boolean)?),
            // The schema narrows them, and names the row that does not fit.
            ScalarType::Int8 | ScalarType::Int16 | ScalarType::Int32 | ScalarType::Int64 => {
                ColumnValues::Int64(self.collect(numbers::integer)?)
            }
            ScalarType::Float => ColumnValues::Float(self.collect(numbers::single)?),
            ScalarType::Double => ColumnValues::Double(self.collect(numbers::float)?),
            ScalarType::Timestamptz => ColumnValues::Timestamptz(self.collect(values::timestamp)?),
            ScalarType::VarChar => {
                ColumnValues::VarChar(self.collect::<String, Texts>(values::text)?)
            }
        })
    }

    fn dense(&self, kind: VectorKind, dim: usize) -> PyResult<ColumnValues> {
        let row_bytes = kind.row_bytes(dim).expect("the vector is dense");
        let mut bytes = Vec::with_capacity(self.items.len() * row_bytes);
        self.visit(|item| match item {
            Some(item) => one_dense(kind, dim, item, &mut bytes),
            None => {
                bytes.resize(bytes.len() + row_bytes, 0);
                Ok(())
            }
        })?;
        let vectors = DenseVectors::new(kind, dim, bytes);
        let vectors = vectors.map_err(|error| PyFailure::value(self.field, None, error))?;
        Ok(ColumnValues::Dense(vectors))
    }
}

/// An error of a conversion, with its place; an error that is none of the value's goes on as it is.
fn value_error(py: Python<'_>, field: &str, row: Option<usize>, error: PyErr) -> PyErr {
    let of_value = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<pyo3::exceptions::PyOverflowError>(py);
    if !of_value {
        return error;
    }
    PyFailure::value(field, row, error.value(py)).into()
}
