//! How the searches of a hybrid search become one ranking.

use pipeann_db::collection::Ranker;

use super::instants::refuse_zones;
use super::parameters::Parameters;
use super::search_params::{MAX_WINDOW, window};
use crate::proto::common::KeyValuePair;
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
    /// For so many searches. Values come as JSON, texts too.
    pub(crate) fn new(given: Vec<KeyValuePair>, searches: usize) -> Result<Self, CallFailure> {
        let plain = |pair: KeyValuePair| KeyValuePair {
            value: pair.value.trim_matches('"').to_owned(),
            ..pair
        };
        let given = Parameters::new(given.into_iter().map(plain).collect())?;
        refuse_zones(|name| given.get(name))?;
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
        Ok(Self {
            ranker: ranker(&given, searches)?,
            offset: window(limit, given.number("offset")?)?,
            limit,
            round: round
                .and_then(|digits| u32::try_from(digits).ok())
                .filter(|digits| *digits <= 6),
        })
    }
}

fn ranker(given: &Parameters, searches: usize) -> Result<Ranker, CallFailure> {
    match given.get("strategy").unwrap_or("rrf") {
        "rrf" => {
            let k = given.number::<f32>("k")?.unwrap_or(USUAL_K);
            if !(k > 0.0 && k < MOST_K) {
                return Err(CallFailure::parameter(format!(
                    "The rank params k should be in range (0, {MOST_K}), but got {k}"
                )));
            }
            Ok(Ranker::Reciprocal { k })
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
            Ok(Ranker::Weighted { weights, normalised: given.flag("norm_score") })
        }
        other => Err(CallFailure::parameter(format!(
            "unsupported rank type {other}; rrf and weighted are supported"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters::pair;
    use super::*;

    fn asked(given: &[(&str, &str)]) -> Result<Ranking, CallFailure> {
        let given = given.iter().map(|(key, value)| pair(*key, *value));
        Ranking::new(given.chain([pair("limit", "10")]).collect(), 2)
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
    fn what_cannot_rank_is_refused() {
        let refused = |given: &[(&str, &str)]| asked(given).unwrap_err().reason;
        let weighted = |params| refused(&[("strategy", "weighted"), ("params", params)]);
        assert!(weighted(r#"{"weights":[1]}"#).contains("[expected=2][actual=1]"));
        assert!(weighted(r#"{"weights":[1,2]}"#).contains("in range [0, 1], but got 2"));
        assert!(weighted("{}").contains("missing"));
        assert!(refused(&[("strategy", "model")]).contains("model"));
        assert!(refused(&[("params", r#"{"k":0}"#)]).contains("but got 0"));
        assert!(refused(&[("group_by_field", "x")]).contains("grouping"));
    }
}
