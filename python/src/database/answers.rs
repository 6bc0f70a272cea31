//! Rows on their way out: as dicts, or as columns.

use numpy::IntoPyArray;
use pipeann_db::collection::FoundRow;
use pipeann_db::schema::{PrimaryKey, Schema};
use pipeann_db::value::{DataType, ScalarType, Value, VectorKind};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::failure::PyFailure;
use super::values::to_python;
use super::vectors::vector_to_python;

/// Which fields are read, beside the primary key: names and types.
pub(super) struct ReadFields {
    pub(super) key: String,
    pub(super) names: Vec<String>,
    types: Vec<DataType>,
}

impl ReadFields {
    /// These fields, or all.
    pub(super) fn new(schema: &Schema, names: Option<Vec<String>>) -> Result<Self, PyFailure> {
        let key = schema.primary_key().spec.name.clone();
        let all = || schema.fields().iter().map(|field| field.spec.name.clone()).collect();
        let mut names = names.unwrap_or_else(all);
        names.retain(|name| *name != key);
        let type_of = |name: &String| {
            let unknown = || pipeann_db::collection::CollectionError::Field {
                wanted: "field",
                field: name.clone(),
            };
            Ok(schema.field(name).ok_or_else(unknown)?.spec.data_type)
        };
        let types = names.iter().map(type_of).collect::<Result<_, PyFailure>>()?;
        Ok(Self { key, names, types })
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// A list with a dict for each row.
    pub(super) fn rows<'py>(
        &self,
        py: Python<'py>,
        rows: Vec<FoundRow>,
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for found in rows {
            let row = PyDict::new(py);
            row.set_item(&self.key, key_to_python(py, &found.key)?)?;
            for ((name, data_type), value) in self.names.iter().zip(&self.types).zip(found.values) {
                row.set_item(name, one(py, *data_type, value)?)?;
            }
            list.append(row)?;
        }
        Ok(list)
    }

    /// A dict with a column for each field.
    pub(super) fn columns<'py>(
        &self,
        py: Python<'py>,
        rows: Vec<FoundRow>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        let mut values: Vec<Vec<Value>> = vec![Vec::with_capacity(rows.len()); self.names.len()];
        let mut keys = Vec::with_capacity(rows.len());
        for row in rows {
            keys.push(row.key);
            values.iter_mut().zip(row.values).for_each(|(column, value)| column.push(value));
        }
        columns.set_item(&self.key, keys_to_python(py, &keys)?)?;
        for ((name, data_type), values) in self.names.iter().zip(&self.types).zip(values) {
            columns.set_item(name, column(py, *data_type, values)?)?;
        }
        Ok(columns)
    }
}

fn one(py: Python<'_>, data_type: DataType, value: Value) -> PyResult<Bound<'_, PyAny>> {
    match (data_type, value) {
        (DataType::Vector(kind), Value::Vector(bytes)) if kind != VectorKind::Sparse => {
            vector_to_python(py, kind, bytes, None)
        }
        (_, value) => to_python(py, data_type, value.as_ref()),
    }
}

/// Numbers without nulls and dense vectors as an array, everything else as a list.
fn column(py: Python<'_>, data_type: DataType, values: Vec<Value>) -> PyResult<Bound<'_, PyAny>> {
    match data_type {
        DataType::Vector(kind) if kind != VectorKind::Sparse => {
            let rows = values.len();
            let parts = values.iter().filter_map(|value| match value {
                Value::Vector(bytes) => Some(bytes.as_slice()),
                _ => None,
            });
            let bytes: Vec<u8> = parts.flatten().copied().collect();
            return vector_to_python(py, kind, bytes, Some(rows));
        }
        DataType::Scalar(scalar) => {
            if let Some(array) = numbers(py, scalar, &values) {
                return Ok(array);
            }
        }
        _ => {}
    }
    let listed: PyResult<Vec<_>> = values.into_iter().map(|v| one(py, data_type, v)).collect();
    Ok(PyList::new(py, listed?)?.into_any())
}

/// An array of the type's own dtype; nothing where a value is null, or the type has none.
fn numbers<'py>(
    py: Python<'py>,
    scalar: ScalarType,
    values: &[Value],
) -> Option<Bound<'py, PyAny>> {
    macro_rules! array {
        ($variant:ident) => {
            values
                .iter()
                .map(|value| match value {
                    Value::$variant(v) => Some(*v),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()
                .map(|all| all.into_pyarray(py).into_any())
        };
    }
    match scalar {
        ScalarType::Bool => array!(Bool),
        ScalarType::Int8 => array!(Int8),
        ScalarType::Int16 => array!(Int16),
        ScalarType::Int32 => array!(Int32),
        ScalarType::Int64 => array!(Int64),
        ScalarType::Float => array!(Float),
        ScalarType::Double => array!(Double),
        ScalarType::Timestamptz | ScalarType::VarChar => None,
    }
}

fn key_to_python<'py>(py: Python<'py>, key: &PrimaryKey) -> PyResult<Bound<'py, PyAny>> {
    match key {
        PrimaryKey::Int64(key) => Ok((*key).into_pyobject(py)?.into_any()),
        PrimaryKey::VarChar(key) => Ok(PyString::new(py, key).into_any()),
    }
}

/// Integers as an array of int64, texts as a list.
pub(super) fn keys_to_python<'py>(
    py: Python<'py>,
    keys: &[PrimaryKey],
) -> PyResult<Bound<'py, PyAny>> {
    let numbers = keys.iter().map(|key| match key {
        PrimaryKey::Int64(key) => Some(*key),
        PrimaryKey::VarChar(_) => None,
    });
    if let Some(numbers) = numbers.collect::<Option<Vec<i64>>>() {
        return Ok(numbers.into_pyarray(py).into_any());
    }
    let texts: PyResult<Vec<_>> = keys.iter().map(|key| key_to_python(py, key)).collect();
    Ok(PyList::new(py, texts?)?.into_any())
}
