//! Batches: a dict of columns or a list of rows, and what becomes of names that no field has.

use pipeann_db::schema::{Batch, DYNAMIC_FIELD, Field, Schema};
use pipeann_db::value::{Column, ColumnValues, Texts};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString};

use super::columns::{Items, column, column_of_items, items};
use super::failure::PyFailure;
use super::{numbers, values};

/// Rows, from a mapping of columns or a sequence of mappings.
pub(super) fn batch(schema: &Schema, object: &Bound<'_, PyAny>) -> PyResult<Batch> {
    if let Ok(columns) = object.cast::<PyMapping>() {
        return from_columns(schema, columns);
    }
    if object.is_instance_of::<PyString>() {
        return Err(PyFailure::input("expected a dict of columns or a list of dicts").into());
    }
    let rows = object.try_iter().map_err(|_| {
        PyErr::from(PyFailure::input("expected a dict of columns or a list of dicts"))
    })?;
    let rows: Vec<_> = rows.collect::<PyResult<_>>()?;
    from_rows(schema, &rows)
}

fn from_columns(schema: &Schema, given: &Bound<'_, PyMapping>) -> PyResult<Batch> {
    let py = given.py();
    let mut columns = Vec::new();
    let mut dynamic = Vec::new();
    for pair in given.items()?.iter() {
        let (name, object): (String, Bound<'_, PyAny>) = pair.extract()?;
        match schema.field(&name) {
            Some(field) => columns.push(column(&field.spec, &object)?),
            None if schema.dynamic_position().is_some() => dynamic.push((name, items(&object)?)),
            None => return Err(unknown(&name, None)),
        }
    }
    let rows = columns.first().map(|column| column.values.rows());
    let rows = rows.or_else(|| dynamic.first().map(|(_, items)| items.len())).unwrap_or(0);
    if !dynamic.is_empty() {
        for (name, items) in &dynamic {
            if items.len() != rows {
                let what = format!("{} values, the batch has {rows} rows", items.len());
                return Err(PyFailure::value(name, None, what).into());
            }
        }
        let objects = (0..rows).map(|row| {
            let object = PyDict::new(py);
            for (name, items) in &dynamic {
                if let Some(item) = &items[row] {
                    object.set_item(name, item)?;
                }
            }
            Ok(object)
        });
        add_dynamic(&mut columns, &objects.collect::<PyResult<Vec<_>>>()?)?;
    }
    Ok(Batch { rows, columns })
}

fn from_rows(schema: &Schema, rows: &[Bound<'_, PyAny>]) -> PyResult<Batch> {
    let fields = schema.fields();
    let mut gathered: Vec<Items<'_>> = vec![vec![None; rows.len()]; fields.len()];
    let mut given = vec![false; fields.len()];
    let mut dynamic = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let dict = row.cast::<PyDict>().map_err(|_| {
            let message = format!("row {at}: expected a dict");
            PyErr::from(PyFailure::input(message))
        })?;
        let extra = PyDict::new(row.py());
        for (name, object) in dict {
            let name: String = name.extract()?;
            match schema.position(&name) {
                Some(field) => {
                    given[field] = true;
                    gathered[field][at] = (!object.is_none()).then_some(object);
                }
                None if schema.dynamic_position().is_some() => extra.set_item(name, object)?,
                None => return Err(unknown(&name, Some(at))),
            }
        }
        dynamic.push(extra);
    }
    let mut columns = Vec::new();
    for ((Field { spec, .. }, items), given) in fields.iter().zip(&gathered).zip(given) {
        if given {
            columns.push(column_of_items(spec, items)?);
        }
    }
    if dynamic.iter().any(|extra| !extra.is_empty()) {
        add_dynamic(&mut columns, &dynamic)?;
    }
    Ok(Batch { rows: rows.len(), columns })
}

/// Adds keys that no field has to the dynamic field, which may be given as well.
fn add_dynamic(columns: &mut Vec<Column>, extra: &[Bound<'_, PyDict>]) -> PyResult<()> {
    if columns.iter().any(|column| column.field == DYNAMIC_FIELD) {
        let what = "it is given beside names that no field has; give either";
        return Err(PyFailure::value(DYNAMIC_FIELD, None, what).into());
    }
    let text = |(row, object): (usize, &Bound<'_, PyDict>)| {
        values::json(object).map_err(|error| {
            let what = error.value(object.py());
            PyErr::from(PyFailure::value(DYNAMIC_FIELD, Some(row), what))
        })
    };
    let texts: Vec<String> = extra.iter().enumerate().map(text).collect::<PyResult<_>>()?;
    let texts: Texts = texts.into_iter().collect();
    columns.push(Column::new(DYNAMIC_FIELD, ColumnValues::Json(texts)));
    Ok(())
}

fn unknown(name: &str, row: Option<usize>) -> PyErr {
    PyFailure::value(name, row, "the schema has no such field, and no dynamic one").into()
}

/// Primary keys, from one key or a sequence of them.
pub(super) fn keys(object: &Bound<'_, PyAny>) -> PyResult<Vec<pipeann_db::schema::PrimaryKey>> {
    use pipeann_db::schema::PrimaryKey;
    let one = |object: &Bound<'_, PyAny>| -> PyResult<PrimaryKey> {
        if object.is_instance_of::<PyString>() {
            return values::text(object).map(PrimaryKey::VarChar);
        }
        numbers::integer(object).map(PrimaryKey::Int64)
    };
    let bad = |at: usize, error: &PyErr| {
        let message = format!("key {at}: {}", error.value(object.py()));
        PyErr::from(PyFailure::input(message))
    };
    if let Ok(key) = one(object) {
        return Ok(vec![key]);
    }
    let listed: Bound<'_, PyList> = match object.hasattr("tolist")? {
        true => object.call_method0("tolist")?.cast_into()?,
        false => PyList::new(object.py(), items(object)?)?,
    };
    let keys = listed.iter().enumerate();
    keys.map(|(at, key)| one(&key).map_err(|error| bad(at, &error))).collect()
}
