//! How a filter is answered, as dicts.

use pipeann_db::collection::{ConditionPlan, FilterPlan, SearchCosts, SearchPlan};
use pipeann_db::scalar::MatchEstimate;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The plan, with its parts as lists of dicts.
pub(super) fn plan_to_python<'py>(
    py: Python<'py>,
    plan: &FilterPlan,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("expression", &plan.expression)?;
    out.set_item("rows", plan.rows)?;
    out.set_item("estimate", estimate(py, plan.estimate)?)?;
    out.set_item("source", plan.source.to_string())?;
    let conditions = plan.conditions.iter().map(|of| condition(py, of));
    out.set_item("conditions", PyList::new(py, conditions.collect::<PyResult<Vec<_>>>()?)?)?;
    out.set_item("certain", plan.certain)?;
    out.set_item("rows_read", plan.rows_read)?;
    out.set_item("matches", plan.matches)?;
    let searches = plan.searches.iter().map(|of| search(py, of));
    out.set_item("searches", PyList::new(py, searches.collect::<PyResult<Vec<_>>>()?)?)?;
    Ok(out)
}

/// What a search took, by name, summed over its queries.
pub(super) fn costs_to_python<'py>(
    py: Python<'py>,
    costs: &SearchCosts,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (name, count) in [
        ("walked", costs.walked),
        ("ranked", costs.ranked),
        ("changed", costs.changed),
        ("compared", costs.compared),
        ("pages_read", costs.pages_read),
        ("pages_resident", costs.pages_resident),
        ("code_distances", costs.code_distances),
        ("exact_distances", costs.exact_distances),
    ] {
        out.set_item(name, count)?;
    }
    Ok(out)
}

fn condition<'py>(py: Python<'py>, of: &ConditionPlan) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("field", of.field.as_deref())?;
    out.set_item("operation", of.operation)?;
    out.set_item("negated", of.negated)?;
    out.set_item("answered_by", of.answered.to_string())?;
    out.set_item("estimate", estimate(py, of.estimate)?)?;
    Ok(out)
}

fn search<'py>(py: Python<'py>, of: &SearchPlan) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("field", &of.field)?;
    out.set_item("linked", of.linked)?;
    out.set_item("exact", of.exact)?;
    out.set_item("walk", of.walk.to_string())?;
    Ok(out)
}

fn estimate<'py>(py: Python<'py>, of: MatchEstimate) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("least", of.least)?;
    out.set_item("guess", of.guess)?;
    out.set_item("most", of.most)?;
    Ok(out)
}
