//! Codes of any scale: RaBitQ about the origin, trained where others lose rows that are far longer or
//! shorter than most.

use super::choice::chosen_code_bytes;
use super::kind::CodeKind;
use super::rabitq::Rabitq;
use super::train::CodeOptions;
use crate::types::{Metric, VectorType};

impl Rabitq {
    /// Codes about the origin, of as many bits as suit the options.
    pub(super) fn of_any_scale(dim: usize, o: &CodeOptions) -> Self {
        let kind = CodeKind::Rabitq;
        let code_bytes = match o.kind {
            CodeKind::Rabitq => o.code_bytes,
            // Rows of mixed lengths are told apart by few of the others' bits; the suitable number
            // of bits costs little beside what is lost without them.
            CodeKind::Product => {
                o.code_bytes.max(chosen_code_bytes(kind, dim, VectorType::F32, None))
            }
        };
        Self::of_bytes(code_bytes, vec![0.0; dim], o.seed)
    }
}

/// Whether the length of a float vector says anything.
pub(super) fn minds_length(metric: Metric) -> bool {
    matches!(metric, Metric::L2 | Metric::InnerProduct)
}
