//! The head index: a small graph over a sample of the nodes.

use std::sync::atomic::AtomicBool;

use super::progress::{Cancelled, Silent};
use super::vamana::vamana;
use super::vamana_options::VamanaOptions;
use crate::distance::PairDistance;
use crate::format::HeadParts;
use crate::graph::medoid;
use crate::types::{Metric, VectorSet};

/// Links `sample`, the vectors of `nodes` in their order, into a head index.
///
/// # Errors
/// [`Cancelled`] soon after `cancel` is set.
pub(crate) fn head_parts(
    sample: VectorSet<'_>,
    nodes: Vec<u32>,
    metric: Metric,
    options: &VamanaOptions,
    cancel: &AtomicBool,
) -> Result<HeadParts, Cancelled> {
    let (count, degree) = (nodes.len(), options.degree);
    let entry = medoid(sample, metric);
    let graph = vamana(&PairDistance::new(metric, sample), entry, options, &Silent, cancel)?;
    let mut parts = HeadParts {
        nodes,
        max_degree: degree as u32,
        degrees: Vec::with_capacity(count),
        adjacency: Vec::with_capacity(count * degree),
        entry,
    };
    for i in 0..count {
        let edges = graph.neighbours(i);
        parts.degrees.push(edges.len() as u16);
        parts.adjacency.extend_from_slice(edges);
        parts.adjacency.resize((i + 1) * degree, 0);
    }
    Ok(parts)
}
