//! The room `estimate`: what an index will cost and give, told before any of its data exists.
//!
//! Counts of bytes follow from the layout and are exact but for a page or two. Recall, reads and
//! times come from a model with few coefficients (`fitted`), which were fitted to measured
//! indexes; how far off it was on sets and limits that it had not seen is told with each estimate.
//! How hard a set is cannot be known from its shape: the model answers for vectors that are about
//! as hard as those it was fitted to, descriptors of images and embeddings of sentences.

mod error;
mod expectation;
mod fitted;
mod model;
mod question;
mod shape;
#[cfg(test)]
mod tests;

pub use error::EstimateError;
pub use expectation::{Errors, Expectation, LoadSpeed};
pub use question::{DeviceSpeed, Effort, Limit, Machine, Question};
pub use shape::{MemoryBytes, Shape};

use crate::build;
use model::CostModel;

/// Estimates an index.
///
/// # Errors
/// [`EstimateError`] where no index can be built so, where the limit is below the floor (with the
/// number needed), or where no list is expected to have the recall.
pub fn expect(question: &Question) -> Result<Expectation, EstimateError> {
    let Question { rows, dim, vector_type, build: options, .. } = question;
    if *rows == 0 {
        return Err(EstimateError::NoRows);
    }
    let build = build::estimate(*rows, *dim, *vector_type, options)?;
    let shape = Shape::of(*rows, *dim, *vector_type, options)?;
    let memory = shape.memory(question.limit)?;
    let resident = shape.resident_share(&memory);
    let Machine { threads, device } = question.machine;
    let device = device.unwrap_or_else(|| fitted::device(shape.page_bytes));
    let model = CostModel { shape: &shape, resident, threads: threads as f64, device };
    let list = match question.effort {
        Effort::List(list) if fitted::LISTS.contains(&list) => list,
        Effort::List(list) => return Err(EstimateError::List { list, known: fitted::LISTS }),
        Effort::Recall(recall) => model.list_for(recall)?,
    };
    let (idle, busy) = (model.idle(list), model.busy(list));
    Ok(Expectation { shape, memory, resident, build, list, idle, busy, errors: fitted::ERRORS })
}
