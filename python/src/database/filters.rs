//! Filters and their templates, from Python.

use std::borrow::Cow;

use pipeann_db::collection::Filter;
use pipeann_db::expr::{Constant, Templates};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::failure::PyFailure;
use super::numbers::{float, integer, wrong};
use super::values::{boolean, text, timestamp};

/// How deep lists may stand in each other.
const DEEPEST: usize = 16;

/// A filter that was given.
pub(super) struct GivenFilter {
    expression: String,
    templates: Templates,
}

impl GivenFilter {
    /// The filter, if one was given; parameters without one are a mistake.
    pub(super) fn new(
        expression: Option<String>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Self>> {
        let Some(expression) = expression else {
            return match parameters {
                Some(_) => Err(PyFailure::input("filter_params without a filter").into()),
                None => Ok(None),
            };
        };
        let mut templates = Templates::new();
        for (name, value) in parameters.into_iter().flatten() {
            let name = text(&name)?;
            let value = constant(&value, 0).map_err(|error| {
                let why = error.value(value.py());
                PyErr::from(PyFailure::input(format!("filter_params, {name:?}: {why}")))
            })?;
            templates.insert(name, value);
        }
        Ok(Some(Self { expression, templates }))
    }

    pub(super) fn as_filter(&self) -> Filter<'_> {
        Filter {
            expression: Cow::Borrowed(&self.expression),
            templates: Cow::Borrowed(&self.templates),
        }
    }
}

/// A value of the language.
fn constant(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Constant> {
    let wanted = "a bool, a number, a str, an aware datetime or a list of them";
    if object.is_instance_of::<PyString>() {
        return text(object).map(Constant::Text);
    }
    if object.is_instance_of::<PyDict>() || object.is_instance_of::<PyBytes>() || object.is_none() {
        return Err(wrong(wanted, object));
    }
    if let Ok(value) = boolean(object) {
        return Ok(Constant::Bool(value));
    }
    if object.hasattr("utcoffset")? {
        return timestamp(object).map(Constant::Instant);
    }
    if let Ok(items) = object.try_iter() {
        if depth == DEEPEST {
            return Err(PyValueError::new_err("lists are nested too deep"));
        }
        let items = items.map(|item| constant(&item?, depth + 1));
        return items.collect::<PyResult<_>>().map(Constant::List);
    }
    if object.hasattr("__index__")? {
        return integer(object).map(Constant::Int);
    }
    float(object).map(Constant::Float).map_err(|_| wrong(wanted, object))
}
