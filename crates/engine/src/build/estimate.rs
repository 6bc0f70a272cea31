//! What a build will cost, told before it starts.

use super::error::BuildError;
use super::options::BuildOptions;
use super::sizes::Sizes;
use crate::types::VectorType;

/// The expected cost of a build.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// CPU time, user and system, in seconds. Rough: calibrated on one machine and one data set.
    pub cpu_seconds: f64,
    /// Peak of the memory that the build allocates (the input itself not counted), in bytes.
    pub peak_memory_bytes: u64,
    /// Size of the finished index in bytes.
    pub disk_bytes: u64,
}

/// Estimates a build of `rows` vectors of `dim` components.
///
/// # Errors
/// [`BuildError`] where an option is out of range or no layout fits.
pub fn estimate(
    rows: u64,
    dim: usize,
    ty: VectorType,
    options: &BuildOptions,
) -> Result<Estimate, BuildError> {
    options.check(dim)?;
    let sizes = Sizes::new(rows, dim, ty, options)?;
    let graph = &options.graph;
    let vector_bytes = ty.vector_bytes(dim) as f64;
    // Comparisons of an insertion: those of its search touch cold memory, those of pruning
    // warm. The factors are set so that a million u8 x 128 rows come out at the 285 CPU-seconds
    // measured (degree 64, list 96, two passes); other shapes are extrapolated by bytes.
    let degree = graph.degree as f64;
    let cold = graph.list as f64 * degree.sqrt() * 3.4 * (12.0 + vector_bytes * 0.04);
    let warm = degree * 80.0 * (4.0 + vector_bytes * 0.008);
    let per_row = graph.passes as f64 * 1.85 * (cold + warm) + dim as f64 * 90.0 + 6_000.0;
    Ok(Estimate {
        cpu_seconds: rows as f64 * per_row * 1e-9 + 0.5,
        peak_memory_bytes: sizes.peak_memory_bytes(),
        disk_bytes: sizes.disk_bytes(),
    })
}
