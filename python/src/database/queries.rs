//! Reads: by key, by filter, by nearness.

use numpy::{IntoPyArray, PyUntypedArray, PyUntypedArrayMethods};
use pipeann_db::collection::{Filter, FoundRow, GivenNames, RowQuery, SearchAnswer, SearchRequest};
use pipeann_db::ids::{Metric, VectorType};
use pipeann_db::schema::{PrimaryKey, Schema};
use pipeann_db::value::VectorKind;
use pipeann_engine::types::VectorSet;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::answers::{ReadFields, keys_to_python};
use super::batches::keys;
use super::collection::PyCollection;
use super::failure::PyFailure;
use super::vectors::{array_bytes, dim_of, one_dense};

impl PyCollection {
    pub(super) fn get_rows<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        fields: Option<Vec<String>>,
        columns: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = self::keys(keys)?;
        let output = ReadFields::new(&*self.schema(py)?, fields)?;
        let rows = self.run(py, |c| Ok(c.get(&keys, &output.names())?))?;
        answer(py, &output, rows, columns)
    }

    pub(super) fn query_rows<'py>(
        &self,
        py: Python<'py>,
        fields: Option<Vec<String>>,
        partitions: Option<Vec<String>>,
        query: RowQuery<'_>,
        columns: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let output = ReadFields::new(&*self.schema(py)?, fields)?;
        let partitions = partitions.as_deref().map(texts);
        let (fields, partitions) = (output.names(), partitions.as_deref());
        let query = RowQuery { fields: &fields, partitions, ..query };
        let rows = self.run(py, |c| Ok(c.query(&query)?))?;
        answer(py, &output, rows, columns)
    }

    pub(super) fn search_rows<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyAny>,
        wanted: WantedRows<'_>,
        fields: Vec<String>,
    ) -> PyResult<Bound<'py, PyList>> {
        let schema = self.schema(py)?;
        let output = ReadFields::new(&schema, Some(fields))?;
        let names = output.names();
        let answers = self.answer_of(py, &schema, queries, wanted, &names)?.hits;
        let hits = py.import("pipeann._values")?.getattr("Hits")?;
        let list = PyList::empty(py);
        for answer in answers {
            let distances: Vec<f32> = answer.iter().map(|hit| hit.distance).collect();
            let row_ids: Vec<u64> = answer.iter().map(|hit| hit.row.row.0).collect();
            let rows: Vec<FoundRow> = answer.into_iter().map(|hit| hit.row).collect();
            let keys: Vec<PrimaryKey> = rows.iter().map(|row| row.key.clone()).collect();
            let columns = output.columns(py, rows)?;
            let keys = keys_to_python(py, &keys)?;
            let distances = distances.into_pyarray(py);
            list.append(hits.call1((keys, distances, row_ids.into_pyarray(py), columns))?)?;
        }
        Ok(list)
    }

    /// A search, with what it took.
    pub(super) fn answer_of(
        &self,
        py: Python<'_>,
        schema: &Schema,
        queries: &Bound<'_, PyAny>,
        wanted: WantedRows<'_>,
        output: &[&str],
    ) -> PyResult<SearchAnswer> {
        let WantedRows { field, k, metric, list, partitions, filter } = wanted;
        let queries = NumpyQueries::new(schema, field, queries)?;
        self.run(py, |c| {
            let output = output.into();
            let named = SearchRequest::new(field, queries.set(field)?, k);
            let request = SearchRequest { metric, list, partitions, filter, output, ..named };
            Ok(c.search(&request)?)
        })
    }
}

/// The rows that a search is for, as Python names them.
pub(super) struct WantedRows<'a> {
    pub(super) field: &'a str,
    pub(super) k: usize,
    pub(super) metric: Option<Metric>,
    pub(super) list: Option<usize>,
    pub(super) partitions: Option<GivenNames<'a>>,
    pub(super) filter: Option<Filter<'a>>,
}

/// Queries of a field as a search takes them.
struct NumpyQueries {
    dim: usize,
    bytes: Vec<u8>,
    vector_type: VectorType,
}

impl NumpyQueries {
    fn new(schema: &Schema, field: &str, queries: &Bound<'_, PyAny>) -> PyResult<Self> {
        let spec = schema.field(field).map(|field| &field.spec);
        let kind = spec.and_then(|spec| spec.data_type.vector_kind());
        let (dim, bytes) = match kind.zip(spec.and_then(|spec| spec.dim)) {
            Some((kind, dim)) => query_bytes(field, kind, dim as usize, queries)?,
            // The search itself says what is wrong with the field.
            None => (1, vec![0]),
        };
        let vector_type = kind.and_then(VectorKind::engine_type).unwrap_or(VectorType::U8);
        Ok(Self { dim, bytes, vector_type })
    }

    fn set(&self, field: &str) -> Result<VectorSet<'_>, PyFailure> {
        let set = VectorSet::new(&self.bytes, self.dim, self.vector_type);
        set.map_err(|error| PyFailure::value(field, None, error))
    }
}

fn answer<'py>(
    py: Python<'py>,
    output: &ReadFields,
    rows: Vec<FoundRow>,
    columns: bool,
) -> PyResult<Bound<'py, PyAny>> {
    match columns {
        true => output.columns(py, rows).map(Bound::into_any),
        false => output.rows(py, rows).map(Bound::into_any),
    }
}

/// Names, borrowed.
pub(super) fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Dimension and bytes of queries: an array of one or two dimensions, or a list of vectors.
fn query_bytes(
    field: &str,
    kind: VectorKind,
    dim: usize,
    queries: &Bound<'_, PyAny>,
) -> PyResult<(usize, Vec<u8>)> {
    let failed = |row: Option<usize>| {
        move |error: PyErr| PyErr::from(PyFailure::value(field, row, error.value(queries.py())))
    };
    if let Ok(array) = queries.cast::<PyUntypedArray>() {
        let entries = match array.shape() {
            &[entries] | &[_, entries] => entries,
            shape => {
                let what = format!("expected queries of shape (n, dimension), found {shape:?}");
                return Err(PyFailure::value(field, None, what).into());
            }
        };
        return Ok((dim_of(kind, entries).max(1), array_bytes(kind, array).map_err(failed(None))?));
    }
    let mut bytes = Vec::new();
    for (row, query) in queries.try_iter().map_err(failed(None))?.enumerate() {
        one_dense(kind, dim, &query?, &mut bytes).map_err(failed(Some(row)))?;
    }
    Ok((dim, bytes))
}
