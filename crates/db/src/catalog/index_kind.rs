//! Which indexes a field can have.

use super::error::IndexFault;
use crate::ids::{Metric, VectorType};
use crate::schema::Field;

/// Index types that are accepted on vectors. All but `FLAT`, which is an exact scan and which Milvus
/// Lite calls `BRUTE_FORCE`, are served by the one graph: a client that asks for one of them gets
/// recall and speed, not its bytes.
pub const VECTOR_INDEX_KINDS: [&str; 13] = [
    "AUTOINDEX",
    "BRUTE_FORCE",
    "DISKANN",
    "FLAT",
    "HNSW",
    "HNSW_PQ",
    "HNSW_PRQ",
    "HNSW_SQ",
    "IVF_FLAT",
    "IVF_PQ",
    "IVF_RABITQ",
    "IVF_SQ8",
    "SCANN",
];

/// Index types that are accepted on binary vectors. Those with `BIN_` are the names of the same for
/// them: `BIN_FLAT` is an exact scan.
pub const BINARY_INDEX_KINDS: [&str; 6] =
    ["AUTOINDEX", "BIN_FLAT", "BIN_IVF_FLAT", "DISKANN", "FLAT", "HNSW"];

/// Index types that are accepted on scalars, JSON and arrays.
pub const SCALAR_INDEX_KINDS: [&str; 7] =
    ["AUTOINDEX", "BITMAP", "HYBRID", "INVERTED", "NGRAM", "STL_SORT", "Trie"];

/// Whether an index of this type is a scan of all vectors.
pub fn is_exact_kind(kind: &str) -> bool {
    matches!(kind, "FLAT" | "BIN_FLAT" | "BRUTE_FORCE")
}

/// Checks that `field` can have an index of this type and metric.
pub(super) fn check(field: &Field, kind: &str, metric: Option<Metric>) -> Result<(), IndexFault> {
    let data_type = field.spec.data_type;
    let vector_type = data_type.vector_kind().map(|kind| kind.engine_type());
    let known: &[&str] = match vector_type {
        Some(None) => return Err(IndexFault::Unsupported(data_type)),
        Some(Some(VectorType::Binary)) => &BINARY_INDEX_KINDS,
        Some(Some(_)) => &VECTOR_INDEX_KINDS,
        None => &SCALAR_INDEX_KINDS,
    };
    if !known.contains(&kind) {
        let found = kind.chars().take(64).collect();
        return Err(IndexFault::UnknownKind { found, data_type, known: known.join(", ") });
    }
    match (vector_type.flatten(), metric) {
        (Some(_), None) => Err(IndexFault::NeedsMetric),
        (Some(ty), Some(metric)) if !ty.takes_metric(metric) => {
            Err(IndexFault::Metric { data_type, metric })
        }
        (Some(_), Some(_)) | (None, None) => Ok(()),
        (None, Some(_)) => Err(IndexFault::NoMetric(data_type)),
    }
}
