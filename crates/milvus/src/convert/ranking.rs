//! How the searches of a hybrid search become one ranking.

use pipeann_db::collection::Ranker;

use super::instants::refuse_zones;
use super::parameters::Parameters;
use super::search_params::{MAX_WINDOW, refuse_later_forms, window};
use crate::proto::common::KeyValuePair;
use crate::proto::schema::{FunctionSchema, FunctionScore, FunctionType};
use crate::status::CallFailure;

/// The constant of reciprocal ranks where none is given.
const USUAL_K: f32 = 60.0;
/// It lies between 0 and this.
const MOST_K: f32 = 16_384.0;

/// What a hybrid search asks for beside its searches.
#[derive(Debug)]
pub(crate) struct Ranking {
    pub(crate) ranker: Ranker,
    pub(crate) limit: usize,
    pub(crate) offset: usize,
    /// Digits behind the point.
    pub(crate) round: Option<u32>,
}

impl Ranking {
    /// For so many searches, by a function where there is one. Values come as JSON, texts too.
    pub(crate) fn new(
        given: Vec<KeyValuePair>,
        by_function: Option<FunctionScore>,
        searches: usize,
    ) -> Result<Self, CallFailure> {
        let plain = |pair: KeyValuePair| KeyValuePair {
            value: pair.value.trim_matches('"').to_owned(),
            ..pair
        };
        let given = Parameters::new(given.into_iter().map(plain).collect())?;
        refuse_zones(|name| given.get(name))?;
        refuse_later_forms(&given)?;
        if given.get("group_by_field").is_some() {
            return Err(CallFailure::unsupported("grouping in a hybrid search"));
        }
        let limit = given.number::<i64>("limit")?.unwrap_or(0);
        let fits = usize::try_from(limit).ok().filter(|fit| (1..=MAX_WINDOW).contains(fit));
        let limit = fits.ok_or_else(|| {
            CallFailure::parameter(format!(
                "invalid max query result window, (offset+limit) should be in range [1, {MAX_WINDOW}], but got {limit}"
            ))
        })?;
        let round = given.number::<i32>("round_decimal")?;
        let ranker = match by_function {
            Some(score) => ranker_of_function(score, searches)?,
            None => {
                let name = given.get("strategy").unwrap_or("rrf");
                ranker(name, &given, searches)?.ok_or_else(|| {
                    CallFailure::parameter(format!(
                        "unsupported rank type {name}; rrf and weighted are supported"
                    ))
                })?
            }
        };
        Ok(Self {
            ranker,
            offset: window(limit, given.number("offset")?)?,
            limit,
            round: round
                .and_then(|digits| u32::try_from(digits).ok())
                .filter(|digits| *digits <= 6),
        })
    }
}

/// The ranker that a function stands for, which needs no field of the rows.
fn ranker_of_function(score: FunctionScore, searches: usize) -> Result<Ranker, CallFailure> {
    let functions = <[FunctionSchema; 1]>::try_from(score.functions).map_err(|functions| {
        let found = functions.len();
        CallFailure::parameter(format!("currently only supports one rerank, but got {found}"))
    });
    let [function] = functions?;
    let function_name = &function.name;
    if function.r#type() != FunctionType::Rerank {
        return Err(CallFailure::parameter(format!("`{function_name}` is not rerank function")));
    }
    let lower = |pair: KeyValuePair| KeyValuePair { key: pair.key.to_lowercase(), ..pair };
    let given = Parameters::new(function.params.into_iter().map(lower).collect())?;
    let name = given.get("reranker").unwrap_or_default().to_lowercase();
    if name.is_empty() {
        let reason = format!("the function `{function_name}` names no reranker");
        return Err(CallFailure::parameter(reason));
    }
    let ranker = ranker(&name, &given, searches)?;
    let ranker =
        ranker.ok_or_else(|| CallFailure::unsupported(format!("the reranker `{name}`")))?;
    match function.input_field_names.first().or(function.output_field_names.first()) {
        Some(field) => Err(CallFailure::parameter(format!(
            "the {name} function does not support input parameters, but got {field}"
        ))),
        None => Ok(ranker),
    }
}

fn is_normalised(given: &Parameters) -> Result<bool, CallFailure> {
    match given.get("norm_score").map(str::to_ascii_lowercase).as_deref() {
        None | Some("false" | "f" | "0") => Ok(false),
        Some("true" | "t" | "1") => Ok(true),
        Some(other) => Err(CallFailure::parameter(format!(
            "norm_score params must be true/false, but got {other}"
        ))),
    }
}

/// The ranker of this name; none of a name that is not known.
fn ranker(name: &str, given: &Parameters, searches: usize) -> Result<Option<Ranker>, CallFailure> {
    Ok(Some(match name {
        "rrf" => {
            let k = given.number::<f32>("k")?.unwrap_or(USUAL_K);
            if !(k > 0.0 && k < MOST_K) {
                return Err(CallFailure::parameter(format!(
                    "The rank params k should be in range (0, {MOST_K}), but got {k}"
                )));
            }
            Ranker::Reciprocal { k }
        }
        "weighted" => {
            let weights: Vec<f32> = match given.get("weights").map(serde_json::from_str) {
                Some(Ok(weights)) => weights,
                _ => {
                    return Err(CallFailure::parameter(
                        "weights of the weighted ranker are missing, or no list of numbers",
                    ));
                }
            };
            if weights.len() != searches {
                return Err(CallFailure::parameter(format!(
                    "the length of weights param mismatch with ann search requests: invalid parameter[expected={searches}][actual={}]",
                    weights.len()
                )));
            }
            if let Some(weight) = weights.iter().find(|weight| !(0.0..=1.0).contains(*weight)) {
                return Err(CallFailure::parameter(format!(
                    "rank param weight should be in range [0, 1], but got {weight}"
                )));
            }
            Ranker::Weighted { weights, normalised: is_normalised(given)? }
        }
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::parameters::pair;
    use super::*;

    fn asked(given: &[(&str, &str)]) -> Result<Ranking, CallFailure> {
        let given = given.iter().map(|(key, value)| pair(*key, *value));
        Ranking::new(given.chain([pair("limit", "10")]).collect(), None, 2)
    }

    fn rerank(params: &[(&str, &str)]) -> FunctionSchema {
        FunctionSchema {
            name: "f".into(),
            r#type: FunctionType::Rerank.into(),
            params: params.iter().map(|(key, value)| pair(*key, *value)).collect(),
            ..FunctionSchema::default()
        }
    }

    fn by_functions(functions: Vec<FunctionSchema>) -> Result<Ranker, CallFailure> {
        let score = FunctionScore { functions, ..FunctionScore::default() };
        Ranking::new(vec![pair("limit", "10")], Some(score), 2).map(|ranking| ranking.ranker)
    }

    #[test]
    fn rankers_are_read_from_json() {
        let ranking = asked(&[("strategy", "\"rrf\""), ("params", r#"{"k":20}"#)]).unwrap();
        assert_eq!((ranking.ranker, ranking.limit), (Ranker::Reciprocal { k: 20.0 }, 10));
        let params = r#"{"weights":[0.25,1.0],"norm_score":true}"#;
        let ranking = asked(&[("strategy", "weighted"), ("params", params)]).unwrap();
        let weights = vec![0.25, 1.0];
        assert_eq!(ranking.ranker, Ranker::Weighted { weights, normalised: true });
        assert_eq!(asked(&[]).unwrap().ranker, Ranker::Reciprocal { k: USUAL_K });
    }

    #[test]
    fn functions_stand_for_the_same_rankers() {
        let by = |params: &[(&str, &str)]| by_functions(vec![rerank(params)]).unwrap();
        assert_eq!(by(&[("reranker", "rrf")]), Ranker::Reciprocal { k: USUAL_K });
        assert_eq!(by(&[("reranker", "RRF"), ("k", "100")]), Ranker::Reciprocal { k: 100.0 });
        let weighted = |normalised| Ranker::Weighted { weights: vec![0.25, 1.0], normalised };
        let given = [("reranker", "weighted"), ("weights", "[0.25, 1.0]")];
        assert_eq!(by(&given), weighted(false));
        let [reranker, weights] = given;
        assert_eq!(by(&[reranker, weights, ("norm_score", "True")]), weighted(true));
    }

    #[test]
    fn functions_that_cannot_rank_are_refused_by_the_name_of_the_ranker() {
        let refused = |functions| by_functions(functions).unwrap_err().reason;
        let one = |params: &[(&str, &str)]| refused(vec![rerank(params)]);
        for name in ["decay", "model", "boost"] {
            let words = format!("the reranker `{name}` is not supported by this server");
            assert_eq!(one(&[("reranker", name), ("k", "1")]), words);
        }
        assert!(one(&[]).contains("names no reranker"));
        assert!(one(&[("reranker", "rrf"), ("k", "0")]).contains("but got 0"));
        assert!(one(&[("reranker", "weighted")]).contains("missing"));
        assert!(refused(Vec::new()).ends_with("one rerank, but got 0"));
        assert!(refused(vec![rerank(&[]); 2]).ends_with("one rerank, but got 2"));
        let other = FunctionSchema { r#type: FunctionType::Bm25.into(), ..rerank(&[]) };
        assert_eq!(refused(vec![other]), "`f` is not rerank function");
        let input_field_names = vec!["n".to_owned()];
        let of_field = FunctionSchema { input_field_names, ..rerank(&[("reranker", "rrf")]) };
        assert!(refused(vec![of_field]).contains("but got n"));
    }

    #[test]
    fn what_cannot_rank_is_refused() {
        let refused = |given: &[(&str, &str)]| asked(given).unwrap_err().reason;
        let weighted = |params| refused(&[("strategy", "weighted"), ("params", params)]);
        assert!(weighted(r#"{"weights":[1]}"#).contains("[expected=2][actual=1]"));
        assert!(weighted(r#"{"weights":[1,2]}"#).contains("in range [0, 1], but got 2"));
        assert!(weighted("{}").contains("missing"));
        let params = r#"{"weights":[1,1],"norm_score":"yes"}"#;
        assert!(weighted(params).ends_with("must be true/false, but got yes"));
        assert!(refused(&[("strategy", "model")]).contains("model"));
        assert!(refused(&[("params", r#"{"k":0}"#)]).contains("but got 0"));
        assert!(refused(&[("group_by_field", "x")]).contains("grouping"));
        assert!(refused(&[("order_by_fields", "x:asc")]).contains("order_by_fields"));
    }
}
