//! Indexes: their parameters, and how far they are.

use std::collections::BTreeMap;

use pipeann_db::catalog::{IndexDefinition, IndexState, NewIndex};
use pipeann_db::collection::IndexStatus;
use pipeann_db::ids::Metric;
use pipeann_db::schema::{FieldSpec, Schema};
use pipeann_db::value::{DataType, ScalarType, VectorKind};

use super::parameters::{Parameters, pair, pairs};
use crate::proto::common::{IndexState as WireState, KeyValuePair};
use crate::proto::milvus::IndexDescription;
use crate::status::{CallFailure, metric_name};

pub(crate) const METRIC_TYPE: &str = "metric_type";
const INDEX_TYPE: &str = "index_type";
/// Names the path that an index on JSON is for.
pub(crate) const JSON_PATH: &str = "json_path";
/// Names the type that values at the path are to be indexed as.
const CAST_TYPE: &str = "json_cast_type";
const CAST_TYPES: [&str; 7] =
    ["BOOL", "DOUBLE", "VARCHAR", "ARRAY_BOOL", "ARRAY_DOUBLE", "ARRAY_VARCHAR", "JSON"];

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
) -> Result<NewIndex, CallFailure> {
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
    check_ranges(&kind, &parameters)?;
    check_scalar(&kind, data_type, &parameters)?;
    let name = Some(name).filter(|name| !name.is_empty());
    Ok(NewIndex { field, name, kind, metric, parameters: parameters.into_map() })
}

/// Parameters of a build, the kinds of indexes that have them, and between what they lie. Most change
/// nothing here; what no index can be built with is refused all the same.
const RANGES: [(&str, &[&str], i64, i64); 3] = [
    ("M", &["HNSW", "HNSW_SQ", "HNSW_PQ", "HNSW_PRQ"], 2, 2048),
    ("efConstruction", &["HNSW", "HNSW_SQ", "HNSW_PQ", "HNSW_PRQ"], 1, 2_147_483_647),
    ("nlist", &["IVF_FLAT", "IVF_SQ8", "IVF_PQ", "IVF_RABITQ", "BIN_IVF_FLAT", "SCANN"], 1, 65_536),
];

fn check_ranges(kind: &str, given: &Parameters) -> Result<(), CallFailure> {
    for (name, kinds, least, most) in RANGES {
        let Some(text) = given.get(name).filter(|_| kinds.contains(&kind)) else { continue };
        let found: i64 = text.trim().parse().map_err(|_| {
            CallFailure::parameter(format!(
                "wrong data type in json, key: '{name}', value: '{text}'"
            ))
        })?;
        if !(least..=most).contains(&found) {
            return Err(CallFailure::parameter(format!(
                "Out of range in json: param '{name}' ({found}) should be in range [{least}, {most}]"
            )));
        }
    }
    Ok(())
}

/// Scalars all have the same index, whatever it is called; what no index can be is refused all the
/// same.
fn check_scalar(kind: &str, data_type: DataType, given: &Parameters) -> Result<(), CallFailure> {
    let is_fraction = matches!(
        data_type,
        DataType::Scalar(ScalarType::Float | ScalarType::Double)
            | DataType::Array(ScalarType::Float | ScalarType::Double)
    );
    match kind {
        "BITMAP" if is_fraction => Err(CallFailure::parameter(
            "bitmap index are only supported on bool, int, string and array field",
        )),
        "NGRAM" => match (given.number::<i64>("min_gram")?, given.number::<i64>("max_gram")?) {
            (Some(min), Some(max)) if 0 < min && min <= max => Ok(()),
            (Some(_), Some(_)) => Err(CallFailure::parameter("invalid min_gram or max_gram value")),
            _ => Err(CallFailure::parameter("Ngram index must specify both min_gram and max_gram")),
        },
        _ => Ok(()),
    }
}

/// The field or key that a path begins with.
pub(crate) fn first_key(path: &str) -> &str {
    let path = path.trim();
    path.find('[').map_or(path, |at| path[..at].trim_end())
}

/// Refuses an index that its field cannot have in Milvus. Every field is indexed here whatever is asked
/// for, so that a slip would first be seen elsewhere.
pub(crate) fn check_field(
    new: &NewIndex,
    field: &FieldSpec,
    schema: &Schema,
) -> Result<(), CallFailure> {
    if new.kind == "BITMAP" && field.primary_key {
        return Err(CallFailure::parameter("create bitmap index on primary key not supported"));
    }
    if field.data_type != DataType::Json {
        return Ok(());
    }
    match new.parameters.get(CAST_TYPE) {
        None => {
            return Err(CallFailure::parameter(format!(
                "json index must specify cast type: missing parameter[missing_param={CAST_TYPE}]: invalid parameter"
            )));
        }
        Some(cast) if !CAST_TYPES.iter().any(|known| known.eq_ignore_ascii_case(cast)) => {
            let known = CAST_TYPES.join(", ");
            return Err(CallFailure::parameter(format!(
                "{CAST_TYPE} {cast} is not supported: invalid parameter; supported are {known}"
            )));
        }
        Some(_) => {}
    }
    let Some(path) = new.parameters.get(JSON_PATH) else { return Ok(()) };
    let key = first_key(path);
    // What is no field is a key of the dynamic field.
    let is_of_field = key == field.name || field.is_dynamic() && schema.field(key).is_none();
    match is_of_field {
        true => Ok(()),
        false => Err(CallFailure::parameter(format!(
            "the {JSON_PATH} {path} does not begin with the field `{}`: invalid parameter",
            field.name
        ))),
    }
}

/// What of an index can be changed after it was made.
const CHANGEABLE: [&str; 2] = ["mmap.enabled", "indexoffsetcache.enabled"];

/// The change of an index's parameters: to be set, and to be forgotten.
pub(crate) fn check_change(
    set: &BTreeMap<String, String>,
    forgotten: &[String],
) -> Result<(), CallFailure> {
    if let Some(name) =
        set.keys().chain(forgotten).find(|name| !CHANGEABLE.contains(&name.as_str()))
    {
        return Err(CallFailure::parameter(format!("{name} is not a configable index property")));
    }
    let is_flag =
        |text: &str| text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
    match set.iter().find(|(_, value)| !is_flag(value)) {
        Some((name, value)) => Err(CallFailure::parameter(format!(
            "invalid {name} value: {value}, expected: true, false"
        ))),
        None => Ok(()),
    }
}

/// What was changed of an index is no difference to the index that is asked for again.
pub(crate) fn keep_changes(new: &mut NewIndex, there: &IndexDefinition) {
    let changed = there.parameters.iter().filter(|(name, _)| CHANGEABLE.contains(&name.as_str()));
    for (name, value) in changed {
        new.parameters.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

/// Names of kinds come in any case; `Trie` is the one that is not written in capitals.
fn canonical(kind: &str) -> String {
    if kind.eq_ignore_ascii_case("trie") { "Trie".to_owned() } else { kind.to_ascii_uppercase() }
}

/// A metric by its name, whatever it is to compare.
pub(crate) fn known_metric(name: &str) -> Result<Metric, CallFailure> {
    name.parse().map_err(|_| {
        CallFailure::parameter(format!(
            "metric type: {name} is not supported; supported are L2, IP, COSINE, HAMMING and JACCARD"
        ))
    })
}

/// A metric by its name, for vectors of this kind.
fn metric(name: &str, kind: VectorKind) -> Result<Metric, CallFailure> {
    let fits = |metric: &Metric| kind.engine_type().is_none_or(|ty| ty.takes_metric(*metric));
    name.parse().ok().filter(fits).ok_or_else(|| {
        let (vectors, supported) = match kind {
            VectorKind::Binary => ("binary", "HAMMING and JACCARD"),
            VectorKind::Int8 => ("int", "L2, IP and COSINE"),
            _ => ("float", "L2, IP and COSINE"),
        };
        CallFailure::parameter(format!(
            "{vectors} vector index does not support metric type: {name}: invalid parameter[expected=valid index params][actual=invalid index params]; supported are {supported}"
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
    use super::*;

    fn asked(data_type: DataType, given: &[(&str, &str)]) -> Result<NewIndex, CallFailure> {
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
    fn parameters_of_a_build_lie_in_their_ranges() {
        let vector = DataType::Vector(VectorKind::Float);
        let of = |kind, name, value| asked(vector, &[("index_type", kind), (name, value)]);
        let refused = |kind, name, value| of(kind, name, value).unwrap_err().reason;
        assert!(refused("HNSW", "M", "1").contains("param 'M' (1) should be in range [2, 2048]"));
        assert!(refused("hnsw_sq", "efConstruction", "0").contains("'efConstruction' (0)"));
        assert!(refused("IVF_FLAT", "nlist", "65537").contains("range [1, 65536]"));
        assert!(refused("IVF_FLAT", "nlist", "many").contains("wrong data type in json"));
        assert_eq!(of("HNSW", "M", "2048").unwrap().parameters["M"], "2048");
        assert!(of("FLAT", "nlist", "0").is_ok(), "it has no such parameter");
    }

    #[test]
    fn kinds_of_scalar_indexes_are_for_scalars_that_can_have_them() {
        let refused = |scalar, given: &[(&str, &str)]| {
            asked(DataType::Scalar(scalar), given).unwrap_err().reason
        };
        assert!(refused(ScalarType::Float, &[("index_type", "BITMAP")]).starts_with("bitmap"));
        let ngram = ("index_type", "NGRAM");
        assert!(refused(ScalarType::VarChar, &[ngram]).contains("both min_gram and max_gram"));
        let grams = [ngram, ("min_gram", "4"), ("max_gram", "2")];
        assert_eq!(refused(ScalarType::VarChar, &grams), "invalid min_gram or max_gram value");
    }

    #[test]
    fn an_index_on_json_names_its_field_and_a_type() {
        let field = |name, data_type| FieldSpec::new(name, data_type);
        let schema = Schema::builder()
            .field(field("id", DataType::Scalar(ScalarType::Int64)).primary_key())
            .field(field("v", DataType::Vector(VectorKind::Float)).dim(2))
            .field(field("meta", DataType::Json))
            .dynamic(true)
            .build()
            .unwrap();
        let on = |name: &str, given: &[(&str, &str)]| {
            let spec = &schema.field(name).unwrap().spec;
            check_field(&asked(spec.data_type, given).unwrap(), spec, &schema)
        };
        let refused = |name, given: &[(&str, &str)]| on(name, given).unwrap_err().reason;
        let bitmap = [("index_type", "bitmap")];
        assert_eq!(refused("id", &bitmap), "create bitmap index on primary key not supported");
        assert_eq!(on("id", &[("index_type", "STL_SORT")]), Ok(()));
        let path = ("json_path", "meta['a']");
        assert!(refused("meta", &[path]).starts_with("json index must specify cast type"));
        let cast = |name: &'static str| ("json_cast_type", name);
        let words = "json_cast_type int64 is not supported";
        assert!(refused("meta", &[path, cast("int64")]).starts_with(words));
        for name in CAST_TYPES {
            assert_eq!(on("meta", &[path, cast(name)]), Ok(()), "{name}");
        }
        let double = cast("double");
        for path in ["meta", "meta [0]", "meta[\"a\"]['b']"] {
            assert_eq!(on("meta", &[("json_path", path), double]), Ok(()), "{path}");
        }
        for path in ["other['a']", "['a']", "id"] {
            let reason = refused("meta", &[("json_path", path), double]);
            assert!(reason.contains("does not begin with the field `meta`"), "{reason}");
        }
        for path in ["color", "color['a']", "$meta['a']"] {
            assert_eq!(on("$meta", &[("json_path", path), double]), Ok(()), "{path}");
        }
        let reason = refused("$meta", &[("json_path", "meta['a']"), double]);
        assert!(reason.contains("does not begin with the field `$meta`"), "{reason}");
    }

    #[test]
    fn little_of_an_index_can_be_changed() {
        let set = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(check_change(&set("mmap.enabled", "True"), &[]), Ok(()));
        assert_eq!(check_change(&BTreeMap::new(), &["mmap.enabled".into()]), Ok(()));
        let refused =
            |set: BTreeMap<_, _>, gone: &[String]| check_change(&set, gone).unwrap_err().reason;
        assert!(refused(set("index_type", "FLAT"), &[]).starts_with("index_type is not a config"));
        assert!(refused(BTreeMap::new(), &["M".into()]).starts_with("M is not a configable"));
        assert_eq!(
            refused(set("mmap.enabled", "20"), &[]),
            "invalid mmap.enabled value: 20, expected: true, false"
        );
    }

    #[test]
    fn a_scalar_index_has_no_metric() {
        let scalar = DataType::Scalar(ScalarType::Int64);
        let new = asked(scalar, &[("metric_type", "L2"), ("index_type", "trie")]).unwrap();
        assert_eq!((new.kind.as_str(), new.metric), ("Trie", None));
    }
}
