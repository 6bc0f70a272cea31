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
        let code_bytes = any_scale_code_bytes(o.kind, dim, o.code_bytes);
        Self::of_bytes(code_bytes, vec![0.0; dim], o.seed)
    }
}

/// Bytes of a code of any scale that is in the place of one of `kind` with `code_bytes` bytes.
pub(crate) fn any_scale_code_bytes(kind: CodeKind, dim: usize, code_bytes: usize) -> usize {
    let rabitq = CodeKind::Rabitq;
    let code_bytes = match kind {
        CodeKind::Rabitq => code_bytes,
        // Rows of mixed lengths are told apart by few of the others' bits; the suitable number of
        // bits costs little beside what is lost without them.
        CodeKind::Product => code_bytes.max(chosen_code_bytes(rabitq, dim, VectorType::F32, None)),
    };
    let longest = rabitq.longest_within(dim, code_bytes);
    longest.unwrap_or_else(|| rabitq.code_bytes_range(dim).0)
}

/// Whether the length of a float vector says anything.
pub(crate) fn minds_length(metric: Metric) -> bool {
    matches!(metric, Metric::L2 | Metric::InnerProduct)
}
