//! Columns of the wire as Python's values, of the types that clients know.

use std::collections::HashSet;

use pipeann_milvus::proto::milvus::SearchResults;
use pipeann_milvus::proto::schema::field_data::Field;
use pipeann_milvus::proto::schema::i_ds::IdField;
use pipeann_milvus::proto::schema::scalar_field::Data;
use pipeann_milvus::proto::schema::vector_field::Data as Vectors;
use pipeann_milvus::proto::schema::{FieldData, ScalarField, VectorField};
use pyo3::BoundObject as _;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::database::json_to_python;

type Object<'py> = Bound<'py, PyAny>;

/// Rows of a few columns, still to be made.
pub(super) struct AnswerRows<'py> {
    py: Python<'py>,
    columns: Vec<AnswerColumn<'py>>,
}

struct AnswerColumn<'py> {
    name: String,
    values: Vec<Object<'py>>,
    /// Of a dynamic field, which keys are wanted; all where nothing is said.
    keys: Option<Option<HashSet<String>>>,
}

impl<'py> AnswerRows<'py> {
    /// `output` has the names as they were asked for; those that no column has are keys of the
    /// dynamic field. Clients know vectors that are bytes as a list with one such, where they are
    /// `listed`.
    pub(super) fn new(
        py: Python<'py>,
        fields: Vec<FieldData>,
        output: &[String],
        listed: bool,
    ) -> PyResult<Self> {
        let names: HashSet<&str> = fields.iter().map(|field| field.field_name.as_str()).collect();
        let keys = output.iter().filter(|name| !names.contains(name.as_str())).cloned();
        let keys: HashSet<String> = keys.collect();
        // As pymilvus has it of rows of queries, though not of hits: who names the field wants all.
        let all = listed && fields.iter().any(|f| f.is_dynamic && output.contains(&f.field_name));
        let column = |field: FieldData| {
            let wanted = || Some(keys.clone()).filter(|keys| !keys.is_empty() && !all);
            let keys = field.is_dynamic.then(wanted);
            let mut values = match field.field {
                Some(Field::Scalars(scalars)) => self::scalars(py, scalars)?,
                Some(Field::Vectors(vectors)) => self::vectors(py, vectors, listed)?,
                None => Vec::new(),
            };
            for (value, valid) in values.iter_mut().zip(field.valid_data) {
                if !valid {
                    *value = py.None().into_bound(py);
                }
            }
            Ok(AnswerColumn { name: field.field_name, values, keys })
        };
        let columns = fields.into_iter().map(column).collect::<PyResult<_>>()?;
        Ok(Self { py, columns })
    }

    /// One row.
    fn row(&self, at: usize) -> PyResult<Bound<'py, PyDict>> {
        let row = PyDict::new(self.py);
        for column in &self.columns {
            let value = &column.values[at];
            let Some(keys) = &column.keys else {
                row.set_item(&column.name, value)?;
                continue;
            };
            for (key, value) in value.cast::<PyDict>()? {
                let wanted = match keys {
                    Some(keys) => keys.contains(key.extract::<&str>()?),
                    None => true,
                };
                if wanted {
                    row.set_item(key, value)?;
                }
            }
        }
        Ok(row)
    }

    /// All rows.
    pub(super) fn all(&self) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let rows = self.columns.first().map_or(0, |column| column.values.len());
        (0..rows).map(|at| self.row(at)).collect()
    }
}

/// What a search found: for each query keys, distances and entities.
pub(super) fn hits(py: Python<'_>, answer: SearchResults) -> PyResult<Bound<'_, PyTuple>> {
    let session = answer.session_ts;
    let found = answer.results.unwrap_or_default();
    let key = found.primary_field_name;
    let keys: Vec<Object<'_>> = match found.ids.and_then(|ids| ids.id_field) {
        Some(IdField::IntId(keys)) => objects(py, keys.data)?,
        Some(IdField::StrId(keys)) => objects(py, keys.data)?,
        None => Vec::new(),
    };
    let distances: Vec<Object<'_>> = objects(py, found.scores)?;
    let bare = found.fields_data.is_empty();
    let rows = AnswerRows::new(py, found.fields_data, &found.output_fields, false)?;
    let queries = PyList::empty(py);
    let mut at = 0;
    for hits in found.topks {
        let end = at + usize::try_from(hits).unwrap_or(0);
        let entity = |row| if bare { Ok(PyDict::new(py)) } else { rows.row(row) };
        let entities = (at..end).map(entity).collect::<PyResult<Vec<_>>>()?;
        queries.append((&keys[at..end], &distances[at..end], entities))?;
        at = end;
    }
    (0, key, queries, session).into_pyobject(py)
}

fn objects<'py, T: IntoPyObject<'py>>(py: Python<'py>, all: Vec<T>) -> PyResult<Vec<Object<'py>>> {
    all.into_iter()
        .map(|one| {
            let object = one.into_pyobject(py).map_err(Into::into)?;
            Ok(object.into_any().into_bound())
        })
        .collect()
}

fn scalars(py: Python<'_>, scalars: ScalarField) -> PyResult<Vec<Object<'_>>> {
    match scalars.data {
        Some(Data::BoolData(all)) => {
            let one = |value| Ok(pyo3::types::PyBool::new(py, value).to_owned().into_any());
            all.data.into_iter().map(one).collect()
        }
        Some(Data::IntData(all)) => objects(py, all.data),
        Some(Data::LongData(all)) => objects(py, all.data),
        Some(Data::FloatData(all)) => objects(py, all.data),
        Some(Data::DoubleData(all)) => objects(py, all.data),
        Some(Data::StringData(all)) => objects(py, all.data),
        Some(Data::JsonData(all)) => {
            let one = |text: Vec<u8>| match text.is_empty() {
                true => Ok(py.None().into_bound(py)),
                false => json_to_python(py, &text),
            };
            all.data.into_iter().map(one).collect()
        }
        Some(Data::ArrayData(all)) => {
            let one = |elements| Ok(PyList::new(py, self::scalars(py, elements)?)?.into_any());
            all.data.into_iter().map(one).collect()
        }
        _ => Ok(Vec::new()),
    }
}

/// Floats as lists of them, all else as bytes; sparse ones as dicts.
fn vectors(py: Python<'_>, vectors: VectorField, listed: bool) -> PyResult<Vec<Object<'_>>> {
    let dim = usize::try_from(vectors.dim).unwrap_or(0);
    let bytes = |data: Vec<u8>, row: usize| -> PyResult<Vec<Object<'_>>> {
        let one = |vector: &[u8]| {
            let bytes = PyBytes::new(py, vector).into_any();
            if listed { Ok(PyList::new(py, [bytes])?.into_any()) } else { Ok(bytes) }
        };
        data.chunks_exact(row.max(1)).map(one).collect()
    };
    match vectors.data {
        Some(Vectors::FloatVector(floats)) => {
            let one = |row: &[u8]| {
                let floats = row.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four));
                Ok(PyList::new(py, floats.collect::<Vec<f32>>())?.into_any())
            };
            floats.data.chunks_exact((dim * 4).max(1)).map(one).collect()
        }
        Some(Vectors::Float16Vector(data) | Vectors::Bfloat16Vector(data)) => bytes(data, dim * 2),
        Some(Vectors::Int8Vector(data)) => bytes(data, dim),
        Some(Vectors::BinaryVector(data)) => bytes(data, dim / 8),
        Some(Vectors::SparseFloatVector(rows)) => {
            let one = |row: &Vec<u8>| {
                let pairs = PyDict::new(py);
                for &[i0, i1, i2, i3, v0, v1, v2, v3] in row.as_chunks::<8>().0 {
                    let index = u32::from_le_bytes([i0, i1, i2, i3]);
                    pairs.set_item(index, f32::from_le_bytes([v0, v1, v2, v3]))?;
                }
                Ok(pairs.into_any())
            };
            rows.contents.iter().map(one).collect()
        }
        None => Ok(Vec::new()),
    }
}
