//! Indexes: their parameters, and how far they are.

use pipeann_db::catalog::{IndexDefinition, IndexState, NewIndex};
use pipeann_db::collection::IndexStatus;
use pipeann_db::ids::Metric;
use pipeann_db::value::{DataType, VectorKind};

use super::parameters::{Parameters, pair, pairs};
use crate::proto::common::{IndexState as WireState, KeyValuePair};
use crate::proto::milvus::IndexDescription;
use crate::status::{Failure, metric_name};

pub(crate) const METRIC_TYPE: &str = "metric_type";
const INDEX_TYPE: &str = "index_type";

/// What an index is made of where the request says nothing: as Milvus chooses by itself.
const DEFAULT_KIND: &str = "AUTOINDEX";

/// The metric of vectors of this kind where the request names none.
fn default_metric(kind: VectorKind) -> Metric {
    if kind == VectorKind::Binary { Metric::Hamming } else { Metric::Cosine }
}

/// The index that is asked for on a field.
pub(crate) fn new_index(
    field: String,
    data_type: DataType,
    name: String,
    mut parameters: Parameters,
) -> Result<NewIndex, Failure> {
    let kind = parameters.take(INDEX_TYPE).unwrap_or_else(|| DEFAULT_KIND.to_owned());
    let given = parameters.take(METRIC_TYPE);
    let metric = match data_type {
        DataType::Vector(vectors) => {
            let given = given.as_deref().map(|name| metric(name, vectors)).transpose()?;
            Some(given.unwrap_or_else(|| default_metric(vectors)))
        }
        // Some clients send a metric with every index.
        _ => None,
    };
    let kind = canonical(&kind);
    let name = Some(name).filter(|name| !name.is_empty());
    Ok(NewIndex { field, name, kind, metric, parameters: parameters.into_map() })
}

/// Names of kinds come in any case; `Trie` is the one that is not written in capitals.
fn canonical(kind: &str) -> String {
    if kind.eq_ignore_ascii_case("trie") { "Trie".to_owned() } else { kind.to_ascii_uppercase() }
}

/// A metric by its name, whatever it is to compare.
pub(crate) fn known_metric(name: &str) -> Result<Metric, Failure> {
    name.parse().map_err(|_| {
        Failure::parameter(format!(
            "metric type: {name} is not supported; supported are L2, IP, COSINE, HAMMING and JACCARD"
        ))
    })
}

/// A metric by its name, for vectors of this kind.
fn metric(name: &str, kind: VectorKind) -> Result<Metric, Failure> {
    let fits = |metric: &Metric| kind.engine_type().is_none_or(|ty| ty.takes_metric(*metric));
    name.parse().ok().filter(fits).ok_or_else(|| {
        let (vectors, supported) = match kind {
            VectorKind::Binary => ("binary", "HAMMING and JACCARD"),
            VectorKind::Int8 => ("int", "L2, IP and COSINE"),
            _ => ("float", "L2, IP and COSINE"),
        };
        Failure::parameter(format!(
            "{vectors} vector index does not support metric type: {name}; supported are {supported}"
        ))
    })
}

/// An index as clients are told of it. `rows` live in the collection.
pub(crate) fn description(
    definition: &IndexDefinition,
    field: &str,
    status: &IndexStatus,
    rows: u64,
) -> IndexDescription {
    let (state, indexed, reason) = match &status.state {
        IndexState::NotBuilt => (WireState::Unissued, 0, ""),
        IndexState::Building { rows_done, .. } => (WireState::InProgress, *rows_done, ""),
        // Rows that wait to enter the graph are searched exactly meanwhile.
        IndexState::Finished { .. } => {
            (WireState::Finished, rows.saturating_sub(status.pending), "")
        }
        IndexState::Failed { reason } => (WireState::Failed, 0, reason.as_str()),
    };
    let count = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
    IndexDescription {
        index_name: definition.name.clone(),
        index_id: count(definition.id.0),
        params: parameters(definition),
        field_name: field.to_owned(),
        indexed_rows: count(indexed.min(rows)),
        total_rows: count(rows),
        state: state.into(),
        index_state_fail_reason: reason.to_owned(),
        pending_index_rows: count(rows.saturating_sub(indexed)),
        ..IndexDescription::default()
    }
}

fn parameters(definition: &IndexDefinition) -> Vec<KeyValuePair> {
    let metric = definition.metric.map(|metric| pair(METRIC_TYPE, metric_name(metric)));
    let kind = pair(INDEX_TYPE, definition.kind.as_str());
    metric.into_iter().chain([kind]).chain(pairs(&definition.parameters)).collect()
}

#[cfg(test)]
mod tests {
    use pipeann_db::value::ScalarType;

    use super::*;

    fn asked(data_type: DataType, given: &[(&str, &str)]) -> Result<NewIndex, Failure> {
        let given = given.iter().map(|(key, value)| pair(*key, *value)).collect();
        new_index("f".into(), data_type, String::new(), Parameters::new(given)?)
    }

    #[test]
    fn an_index_without_parameters_is_chosen_for_the_client() {
        let vector = DataType::Vector(VectorKind::Float);
        let new = asked(vector, &[]).unwrap();
        assert_eq!((new.kind.as_str(), new.metric), ("AUTOINDEX", Some(Metric::Cosine)));
        assert_eq!(new.name, None);
        let nested = [("params", r#"{"M":8}"#), ("metric_type", "l2"), ("index_type", "hnsw")];
        let new = asked(vector, &nested).unwrap();
        assert_eq!((new.kind.as_str(), new.metric), ("HNSW", Some(Metric::L2)));
        assert_eq!(new.parameters["M"], "8");
        assert!(asked(vector, &[("metric_type", "CANBERRA")]).is_err());
    }

    #[test]
    fn metrics_go_with_types() {
        let of = |kind, given: &[(&str, &str)]| asked(DataType::Vector(kind), given);
        let chosen = |kind| of(kind, &[]).unwrap().metric;
        assert_eq!(chosen(VectorKind::Binary), Some(Metric::Hamming));
        assert_eq!(chosen(VectorKind::Float16), Some(Metric::Cosine));
        assert_eq!(chosen(VectorKind::Int8), Some(Metric::Cosine));
        let jaccard = [("metric_type", "JACCARD")];
        assert_eq!(of(VectorKind::Binary, &jaccard).unwrap().metric, Some(Metric::Jaccard));
        let refused = |kind, name| of(kind, &[("metric_type", name)]).unwrap_err().reason;
        let text = "binary vector index does not support metric type: SUBSTRUCTURE";
        assert!(refused(VectorKind::Binary, "SUBSTRUCTURE").starts_with(text));
        assert!(refused(VectorKind::Binary, "L2").contains("metric type: L2"));
        let text = "float vector index does not support metric type: JACCARD";
        assert!(refused(VectorKind::BFloat16, "JACCARD").starts_with(text));
        assert!(refused(VectorKind::Int8, "HAMMING").starts_with("int vector index"));
    }

    #[test]
    fn a_scalar_index_has_no_metric() {
        let scalar = DataType::Scalar(ScalarType::Int64);
        let new = asked(scalar, &[("metric_type", "L2"), ("index_type", "trie")]).unwrap();
        assert_eq!((new.kind.as_str(), new.metric), ("Trie", None));
    }
}
