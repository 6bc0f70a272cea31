//! Which indexes a field can have.

use super::error::IndexFault;
use crate::ids::Metric;
use crate::schema::Field;
use crate::value::DataType;

/// Index types that are accepted on vectors. All but `FLAT`, which is an exact scan, are served
/// by the one graph: a client that asks for one of them gets recall and speed, not its bytes.
pub const VECTOR_INDEX_KINDS: [&str; 12] = [
    "AUTOINDEX",
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

/// Index types that are accepted on scalars, JSON and arrays.
pub const SCALAR_INDEX_KINDS: [&str; 7] =
    ["AUTOINDEX", "BITMAP", "HYBRID", "INVERTED", "NGRAM", "STL_SORT", "Trie"];

/// Checks that `field` can have an index of this type and metric.
pub(super) fn check(field: &Field, kind: &str, metric: Option<Metric>) -> Result<(), IndexFault> {
    let data_type = field.spec.data_type;
    let known: &[&str] = match data_type {
        DataType::Vector(vectors) if vectors.engine_type().is_none() => {
            return Err(IndexFault::Unsupported(data_type));
        }
        DataType::Vector(_) => &VECTOR_INDEX_KINDS,
        _ => &SCALAR_INDEX_KINDS,
    };
    if !known.contains(&kind) {
        let found = kind.chars().take(64).collect();
        return Err(IndexFault::UnknownKind { found, data_type, known: known.join(", ") });
    }
    match (data_type, metric) {
        (DataType::Vector(_), None) => Err(IndexFault::NeedsMetric),
        (DataType::Vector(_), Some(_)) | (_, None) => Ok(()),
        (_, Some(_)) => Err(IndexFault::NoMetric(data_type)),
    }
}
