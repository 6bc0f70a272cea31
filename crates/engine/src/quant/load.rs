//! Vectors as floats of the scale that codes are made and compared on.

use crate::types::{Metric, VectorType, to_f32};

/// Converts a vector to what is encoded or looked up: normalised where the metric asks for it,
/// except that a zero vector stays zero.
pub(super) fn load(bytes: &[u8], ty: VectorType, metric: Metric, out: &mut [f32]) {
    to_f32(bytes, ty, out);
    if metric.normalises() {
        let norm = out.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        if norm > 0.0 {
            let inverse = (1.0 / norm) as f32;
            out.iter_mut().for_each(|x| *x *= inverse);
        }
    }
}
