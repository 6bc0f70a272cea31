//! Schemas and the catalogue, to Python and back.

use std::collections::BTreeMap;

use pipeann_db::catalog::{CollectionEntry as Entry, IndexState, Properties, Snapshot, WantedLoad};
use pipeann_db::collection::IndexStatus;
use pipeann_db::schema::{FieldSpec, Schema};
use pipeann_db::value::{DataType, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::failure::PyFailure;
use super::values::{json, scalar, to_python};

/// A schema from fields that are dicts, or have such a `__dict__`.
pub(super) fn schema(
    fields: &Bound<'_, PyAny>,
    description: &str,
    dynamic: bool,
) -> PyResult<Schema> {
    let mut builder = Schema::builder().description(description).dynamic(dynamic);
    for object in fields.try_iter()? {
        builder = builder.field(field(&object?)?);
    }
    Ok(builder.build().map_err(PyFailure::from)?)
}

/// One field.
pub(super) fn field(object: &Bound<'_, PyAny>) -> PyResult<FieldSpec> {
    let dict = match object.cast::<PyDict>() {
        Ok(dict) => dict.clone(),
        Err(_) => object.getattr("__dict__").and_then(|d| Ok(d.cast_into()?)).map_err(|_| {
            PyErr::from(PyFailure::input("expected a pipeann.Field, or a dict with its names"))
        })?,
    };
    let required = |name: &str| -> PyResult<String> {
        let found = dict.get_item(name)?.filter(|value| !value.is_none());
        let missing = || PyFailure::input(format!("a field needs a {name}"));
        found.ok_or_else(missing)?.extract().map_err(|error| bad(name, &error, object.py()))
    };
    let name = required("name")?;
    let data_type: DataType =
        required("type")?.parse().map_err(|error| PyFailure::value(&name, None, error))?;
    let mut spec = FieldSpec::new(name, data_type);
    for (key, value) in &dict {
        let key: String = key.extract()?;
        if value.is_none() {
            continue;
        }
        set(&mut spec, &key, &value).map_err(|error| {
            match error.is_instance_of::<pyo3::exceptions::PyException>(value.py()) {
                true => PyFailure::value(
                    &spec.name,
                    None,
                    format!("{key}: {}", error.value(value.py())),
                )
                .into(),
                false => error,
            }
        })?;
    }
    Ok(spec)
}

fn set(spec: &mut FieldSpec, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match key {
        "name" | "type" => {}
        "description" => spec.description = value.extract()?,
        "primary_key" => spec.primary_key = value.extract()?,
        "auto_id" => spec.auto_id = value.extract()?,
        "partition_key" => spec.partition_key = value.extract()?,
        "nullable" => spec.nullable = value.extract()?,
        "max_bytes" => spec.max_bytes = Some(value.extract()?),
        "max_capacity" => spec.max_capacity = Some(value.extract()?),
        "dim" => spec.dim = Some(value.extract()?),
        "properties" => spec.properties = value.extract()?,
        "default" => {
            spec.default = Some(match spec.data_type {
                DataType::Scalar(wanted) => scalar(wanted, value)?,
                DataType::Json => Value::Json(json(value)?),
                other => {
                    let what = format!("a field of type {other} has no default");
                    return Err(PyFailure::input(what).into());
                }
            });
        }
        _ => return Err(PyFailure::input("no such property of a field").into()),
    }
    Ok(())
}

fn bad(name: &str, error: &PyErr, py: Python<'_>) -> PyErr {
    PyFailure::input(format!("{name}: {}", error.value(py))).into()
}

/// Properties, from a dict of texts or nothing.
pub(super) fn properties(given: Option<BTreeMap<String, String>>) -> Properties {
    given.unwrap_or_default()
}

/// What the catalogue says about a collection.
pub(super) fn describe<'py>(
    py: Python<'py>,
    snapshot: &Snapshot,
    entry: &Entry,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("name", &entry.name)?;
    out.set_item("database", database_of(snapshot, entry))?;
    out.set_item("id", entry.id.0)?;
    out.set_item("description", entry.schema.description())?;
    out.set_item("dynamic", entry.schema.dynamic_position().is_some())?;
    let fields: PyResult<Vec<_>> =
        entry.schema.fields().iter().map(|field| describe_field(py, &field.spec)).collect();
    out.set_item("fields", fields?)?;
    out.set_item("aliases", snapshot.aliases_of(entry))?;
    let partitions: Vec<_> = entry.partitions.iter().map(|p| p.name.as_str()).collect();
    out.set_item("partitions", partitions)?;
    let loaded = entry.partitions.iter().filter(|partition| entry.load.includes(partition.id));
    out.set_item("loaded_partitions", loaded.map(|p| p.name.as_str()).collect::<Vec<_>>())?;
    out.set_item("loaded", entry.load != WantedLoad::Released)?;
    out.set_item("properties", &entry.properties)?;
    out.set_item("created_ms", entry.created.0)?;
    let indexes = PyList::empty(py);
    for index in &entry.indexes {
        let described = PyDict::new(py);
        described.set_item("name", &index.name)?;
        let field = entry.schema.field_by_id(index.field);
        described.set_item("field", field.map(|field| field.spec.name.as_str()))?;
        described.set_item("kind", &index.kind)?;
        described.set_item("metric", index.metric.map(|metric| metric.name()))?;
        described.set_item("parameters", &index.parameters)?;
        described.set_item("state", state_name(&index.state))?;
        indexes.append(described)?;
    }
    out.set_item("indexes", indexes)?;
    Ok(out)
}

/// The name of the database that a collection is in.
pub(super) fn database_of<'s>(snapshot: &'s Snapshot, entry: &Entry) -> &'s str {
    let home = snapshot.databases().find(|(_, database)| database.id == entry.database);
    home.map_or("", |(name, _)| name)
}

/// How far an index is, as `pipeann._values.IndexStatus`.
pub(super) fn index_status(py: Python<'_>, status: IndexStatus) -> PyResult<Bound<'_, PyAny>> {
    let (rows_done, rows, reason) = match &status.state {
        IndexState::NotBuilt => (0, 0, None),
        IndexState::Building { rows_done, rows } => (*rows_done, *rows, None),
        IndexState::Finished { rows } => (*rows, *rows, None),
        IndexState::Failed { reason } => (0, 0, Some(reason)),
    };
    py.import("pipeann._values")?.getattr("IndexStatus")?.call1((
        &status.name,
        state_name(&status.state),
        rows_done,
        rows,
        status.linked,
        status.pending,
        status.deleted,
        reason.or(status.failed.as_ref()),
    ))
}

/// A word for the state of an index.
fn state_name(state: &IndexState) -> &'static str {
    match state {
        IndexState::NotBuilt => "not_built",
        IndexState::Building { .. } => "building",
        IndexState::Finished { .. } => "finished",
        IndexState::Failed { .. } => "failed",
    }
}

fn describe_field<'py>(py: Python<'py>, spec: &FieldSpec) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("name", &spec.name)?;
    out.set_item("type", spec.data_type.to_string())?;
    out.set_item("description", &spec.description)?;
    out.set_item("primary_key", spec.primary_key)?;
    out.set_item("auto_id", spec.auto_id)?;
    out.set_item("partition_key", spec.partition_key)?;
    out.set_item("nullable", spec.nullable)?;
    let default = spec.default.as_ref().map(|value| to_python(py, spec.data_type, value.as_ref()));
    out.set_item("default", default.transpose()?)?;
    out.set_item("max_bytes", spec.max_bytes)?;
    out.set_item("max_capacity", spec.max_capacity)?;
    out.set_item("dim", spec.dim)?;
    out.set_item("properties", &spec.properties)?;
    Ok(out)
}
