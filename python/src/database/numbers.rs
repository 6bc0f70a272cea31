//! Numbers from Python objects, and what is said of an object that is something else.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

/// An integer; `True` is none.
pub(super) fn integer(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    if object.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("expected an integer, found a bool"));
    }
    object.extract().map_err(|error: PyErr| {
        match error.is_instance_of::<PyOverflowError>(object.py()) {
            true => PyValueError::new_err("the integer does not fit 64 bits"),
            false => wrong("an integer", object),
        }
    })
}

/// A number; `True` is none.
pub(super) fn float(object: &Bound<'_, PyAny>) -> PyResult<f64> {
    if object.is_instance_of::<PyBool>() || object.is_instance_of::<PyString>() {
        return Err(wrong("a number", object));
    }
    object.extract().map_err(|_| wrong("a number", object))
}

/// A number in single precision; one that is too large for it is refused.
pub(super) fn single(object: &Bound<'_, PyAny>) -> PyResult<f32> {
    let wide = float(object)?;
    #[expect(clippy::cast_possible_truncation, reason = "the range is looked at")]
    let narrow = wide as f32;
    if wide.is_finite() && !narrow.is_finite() {
        return Err(PyValueError::new_err(format!("{wide} is too large for a float32")));
    }
    Ok(narrow)
}

/// Names what was found instead of what was expected.
pub(super) fn wrong(expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    let name = found.get_type().name().map_or_else(|_| "something else".into(), |n| n.to_string());
    PyTypeError::new_err(format!("expected {expected}, found {name}"))
}
