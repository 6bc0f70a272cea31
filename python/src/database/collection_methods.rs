//! `pipeann.Collection` as Python calls it: writes, and what the catalogue has of it. Reads are in
//! `queries`, loads in `loading`.

use std::collections::BTreeMap;

use pipeann_db::catalog::{EntryChange, IndexState, NewIndex, Properties};
use pipeann_db::collection::{IndexStatus, RowOrder, RowQuery};
use pipeann_db::ids::Metric;
use pipeann_db::value::DataType;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::answers::keys_to_python;
use super::batches::{batch, keys};
use super::collection::PyCollection;
use super::failure::PyFailure;
use super::filters::GivenFilter;
use super::loading::PAUSE;
use super::plans::{costs_to_python, plan_to_python};
use super::queries::{WantedRows, texts};
use super::schemas::{describe, field, index_status, properties};

#[pymethods]
impl PyCollection {
    /// Its name now.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.run(py, |c| Ok(c.entry()?.name.clone()))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.name(py) {
            Ok(name) => format!("Collection({name:?})"),
            Err(_) => "Collection(closed)".to_owned(),
        }
    }

    /// Adds rows.
    #[pyo3(signature = (data, *, partition=None))]
    fn insert<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        partition: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = batch(&*self.schema(py)?, data)?;
        let outcome = self.run(py, |c| Ok(c.insert(batch, partition)?))?;
        keys_to_python(py, &outcome.keys)
    }

    /// Adds rows, in the place of those that have their keys.
    #[pyo3(signature = (data, *, partition=None))]
    fn upsert<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        partition: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = batch(&*self.schema(py)?, data)?;
        let outcome = self.run(py, |c| Ok(c.upsert(batch, partition)?))?;
        keys_to_python(py, &outcome.keys)
    }

    /// Deletes rows by key or by filter.
    #[pyo3(signature = (keys=None, *, filter=None, filter_params=None, partitions=None))]
    fn delete(
        &self,
        py: Python<'_>,
        keys: Option<&Bound<'_, PyAny>>,
        filter: Option<String>,
        filter_params: Option<&Bound<'_, PyDict>>,
        partitions: Option<Vec<String>>,
    ) -> PyResult<u64> {
        match (keys, GivenFilter::new(filter, filter_params)?) {
            (Some(keys), None) if partitions.is_none() => {
                let keys = self::keys(keys)?;
                self.run(py, |c| Ok(c.delete(&keys)?.rows))
            }
            (None, Some(filter)) => {
                let names = partitions.as_deref().map(texts);
                let names = names.as_deref();
                self.run(py, |c| Ok(c.delete_matching(filter.as_filter(), names)?.rows))
            }
            _ => {
                Err(PyFailure::input("give keys alone, or a filter and perhaps partitions").into())
            }
        }
    }

    /// Puts all parts on stable storage.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |c| Ok(c.flush().map(drop)?))
    }

    /// What it holds.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.run(py, |c| Ok(c.stats()))?;
        let out = PyDict::new(py);
        out.set_item("rows", stats.rows)?;
        out.set_item("next_row", stats.next_row)?;
        out.set_item("visible", stats.visible.0)?;
        out.set_item("flushed", stats.flushed.0)?;
        out.set_item("vectors", BTreeMap::from_iter(stats.vectors))?;
        out.set_item("stopped", stats.stopped)?;
        Ok(out)
    }

    /// Reads everything; what is wrong.
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        self.run(py, |c| {
            let findings = c.verify()?.into_iter();
            Ok(findings.map(|finding| (finding.component, finding.what)).collect())
        })
    }

    /// What the catalogue says about it.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (snapshot, entry) = self.with(py, |db, c| Ok((db.catalog(), c.entry()?)))?;
        describe(py, &snapshot, &entry)
    }

    /// Names of the fields of JSON.
    fn json_fields(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let entry = self.with(py, |_, c| Ok(c.entry()?))?;
        let fields = entry.schema.fields().iter().map(|field| &field.spec);
        let json = fields.filter(|spec| spec.data_type == DataType::Json);
        Ok(json.map(|spec| spec.name.clone()).collect())
    }

    /// Adds a field.
    fn add_field(&self, py: Python<'_>, field: &Bound<'_, PyAny>) -> PyResult<()> {
        let field = Box::new(self::field(field)?);
        self.change(py, |place| EntryChange::AddField { place, field })
    }

    /// Creates a partition.
    fn create_partition(&self, py: Python<'_>, partition: String) -> PyResult<()> {
        self.change(py, |place| EntryChange::CreatePartition { place, partition })
    }

    /// Drops a partition with its rows.
    fn drop_partition(&self, py: Python<'_>, partition: String) -> PyResult<()> {
        self.change(py, |place| EntryChange::DropPartition { place, partition })
    }

    /// Makes it searchable.
    #[pyo3(signature = (partitions=None))]
    fn load(&self, py: Python<'_>, partitions: Option<Vec<String>>) -> PyResult<()> {
        self.change(py, |place| EntryChange::Load { place, partitions })
    }

    /// Makes it unsearchable.
    #[pyo3(signature = (partitions=None))]
    fn release(&self, py: Python<'_>, partitions: Option<Vec<String>>) -> PyResult<()> {
        self.change(py, |place| EntryChange::Release { place, partitions })
    }

    /// Declares an index.
    #[pyo3(signature = (field, metric=None, *, kind="AUTOINDEX", name=None, parameters=None))]
    fn create_index(
        &self,
        py: Python<'_>,
        field: String,
        metric: Option<&str>,
        kind: &str,
        name: Option<String>,
        parameters: Option<BTreeMap<String, String>>,
    ) -> PyResult<()> {
        let metric = self::metric(metric)?;
        let (kind, parameters) = (kind.to_owned(), properties(parameters));
        let new = NewIndex { field, name, kind, metric, parameters };
        self.change(py, |place| EntryChange::CreateIndex { place, new })
    }

    /// Drops an index.
    fn drop_index(&self, py: Python<'_>, index: String) -> PyResult<()> {
        self.change(py, |place| EntryChange::DropIndex { place, index })
    }

    /// Has an index built, and returns at once.
    fn build_index(&self, py: Python<'_>, index: &str) -> PyResult<()> {
        self.run(py, |c| Ok(c.build_index(index)?))
    }

    /// How far an index is.
    fn index_status<'py>(&self, py: Python<'py>, index: &str) -> PyResult<Bound<'py, PyAny>> {
        let status = self.run(py, |c| Ok(c.index_status(index)?))?;
        index_status(py, status)
    }

    /// Waits for an index.
    fn wait_for_index<'py>(&self, py: Python<'py>, index: &str) -> PyResult<Bound<'py, PyAny>> {
        loop {
            let status = self.run(py, |c| {
                let status = c.index_status(index)?;
                if is_under_way(&status) {
                    std::thread::park_timeout(PAUSE);
                }
                Ok(status)
            })?;
            py.check_signals()?;
            if !is_under_way(&status) {
                return index_status(py, status);
            }
        }
    }

    /// How many rows live.
    #[pyo3(signature = (*, partition=None, filter=None, filter_params=None))]
    fn count(
        &self,
        py: Python<'_>,
        partition: Option<&str>,
        filter: Option<String>,
        filter_params: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        match GivenFilter::new(filter, filter_params)? {
            None => self.run(py, |c| Ok(c.count(partition)?)),
            Some(filter) => {
                let names = partition.map(|name| [name]);
                let names = names.as_ref().map(|names| &names[..]);
                self.run(py, |c| Ok(c.count_matching(filter.as_filter(), names)?))
            }
        }
    }

    /// How a filter is answered.
    #[pyo3(signature = (filter, *, filter_params=None, partitions=None, field=None, queries=None,
        k=10, metric=None, list_length=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        filter: String,
        filter_params: Option<&Bound<'_, PyDict>>,
        partitions: Option<Vec<String>>,
        field: Option<&str>,
        queries: Option<&Bound<'_, PyAny>>,
        k: usize,
        metric: Option<&str>,
        list_length: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let given = GivenFilter::new(Some(filter), filter_params)?.expect("a filter was given");
        let names = partitions.as_deref().map(texts);
        let plan = self.run(py, |c| Ok(c.explain(given.as_filter(), names.as_deref())?))?;
        let plan = plan_to_python(py, &plan)?;
        if let Some((field, queries)) = field.zip(queries) {
            let (metric, list, filter) =
                (self::metric(metric)?, list_length, Some(given.as_filter()));
            let partitions = partitions.map(Into::into);
            let wanted = WantedRows { field, k, metric, list, partitions, filter };
            let costs = self.answer_of(py, &*self.schema(py)?, queries, wanted, &[])?.costs;
            plan.set_item("costs", costs_to_python(py, &costs)?)?;
        }
        Ok(plan)
    }

    /// The newest row of each key.
    #[pyo3(signature = (keys, fields=None, *, columns=false))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        fields: Option<Vec<String>>,
        columns: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.get_rows(py, keys, fields, columns)
    }

    /// Rows by filter and range of row ids.
    #[pyo3(signature = (fields=None, *, filter=None, filter_params=None, partitions=None, start=0,
        stop=None, offset=0, limit=None, order="row_id", columns=false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn query<'py>(
        &self,
        py: Python<'py>,
        fields: Option<Vec<String>>,
        filter: Option<String>,
        filter_params: Option<&Bound<'py, PyDict>>,
        partitions: Option<Vec<String>>,
        start: u64,
        stop: Option<u64>,
        offset: usize,
        limit: Option<usize>,
        order: &str,
        columns: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let filter = GivenFilter::new(filter, filter_params)?;
        let query = RowQuery {
            filter: filter.as_ref().map(GivenFilter::as_filter),
            rows: Some(start..stop.unwrap_or(u64::MAX)).filter(|rows| *rows != (0..u64::MAX)),
            order: row_order(order)?,
            offset,
            limit,
            ..RowQuery::default()
        };
        self.query_rows(py, fields, partitions, query, columns)
    }

    /// The nearest rows of each query.
    #[pyo3(signature = (field, queries, k=10, *, filter=None, filter_params=None, metric=None,
        list_length=None, partitions=None, fields=Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        field: &str,
        queries: &Bound<'py, PyAny>,
        k: usize,
        filter: Option<String>,
        filter_params: Option<&Bound<'py, PyDict>>,
        metric: Option<&str>,
        list_length: Option<usize>,
        partitions: Option<Vec<String>>,
        fields: Vec<String>,
    ) -> PyResult<Bound<'py, PyList>> {
        let filter = GivenFilter::new(filter, filter_params)?;
        let wanted = WantedRows {
            field,
            k,
            metric: self::metric(metric)?,
            list: list_length,
            partitions: partitions.map(Into::into),
            filter: filter.as_ref().map(GivenFilter::as_filter),
        };
        self.search_rows(py, queries, wanted, fields)
    }

    /// Loads a source.
    #[pyo3(signature = (source, *, name=None, partition=None, batch_bytes=None,
        build_indexes=true, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn bulk_load<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        name: Option<String>,
        partition: Option<String>,
        batch_bytes: Option<u64>,
        build_indexes: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let source = self.source(py, source)?;
        let mut options = self.load_options(py, &source, name, partition)?;
        options.build_indexes = build_indexes;
        options.batch_bytes = batch_bytes.unwrap_or(options.batch_bytes);
        self.load_source(py, source, &options, progress)
    }

    /// What a load will take.
    fn estimate_load<'py>(
        &self,
        py: Python<'py>,
        rows: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.estimate_rows(py, rows)
    }

    /// Loads that are remembered.
    fn loads(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, bool)>> {
        self.run(py, |c| {
            let loads = c.loads()?.into_iter();
            Ok(loads.map(|load| (load.name, load.rows, load.finished)).collect())
        })
    }

    /// Changes what is kept with it.
    #[pyo3(signature = (*, set=None, remove=None))]
    fn alter_properties(
        &self,
        py: Python<'_>,
        set: Option<Properties>,
        remove: Option<Vec<String>>,
    ) -> PyResult<()> {
        let (set, remove) = (set.unwrap_or_default(), remove.unwrap_or_default());
        self.change(py, |place| EntryChange::AlterCollection {
            place,
            set,
            remove,
            description: None,
            consistency: None,
        })
    }

    /// Forgets a load.
    fn forget_load(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.run(py, |c| Ok(c.forget_load(name)?))
    }
}

fn is_under_way(status: &IndexStatus) -> bool {
    let working = matches!(status.state, IndexState::Building { .. }) || status.pending > 0;
    working && status.failed.is_none()
}

fn row_order(name: &str) -> PyResult<RowOrder<'static>> {
    match name {
        "row_id" => Ok(RowOrder::RowId),
        "key" => Ok(RowOrder::Key),
        other => {
            let what = format!("order {other:?}; rows come by \"row_id\" or by \"key\"");
            Err(PyFailure::input(what).into())
        }
    }
}

fn metric(name: Option<&str>) -> PyResult<Option<Metric>> {
    let parse = |name: &str| name.parse().map_err(|e| PyFailure::input(format!("{e}")));
    Ok(name.map(parse).transpose()?)
}
