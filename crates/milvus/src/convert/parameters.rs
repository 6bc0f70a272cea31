//! Parameters: pairs of texts, some of which hold JSON with more of them.
//!
//! Some clients send parameters one by one, others all as one JSON object under `params`, others
//! both. Numbers and booleans come as texts in any case. What nobody asks for is ignored.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value as Json;

use crate::proto::common::KeyValuePair;
use crate::status::CallFailure;

/// The key under which more parameters stand as JSON.
const NESTED: &str = "params";
/// The longest JSON of them: parsed it takes many times its bytes, which nobody has counted.
const NESTED_BYTES: usize = 64 << 10;
/// So much of a text that is refused is told again.
const SHOWN_BYTES: usize = 256;

/// Parameters by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// All parameters, those that are nested too. What stands beside `params` goes before what
    /// stands in it.
    pub(crate) fn new(pairs: Vec<KeyValuePair>) -> Result<Self, CallFailure> {
        let mut all: BTreeMap<String, String> =
            pairs.into_iter().map(|pair| (pair.key, pair.value)).collect();
        let nested = all.remove(NESTED);
        if let Some(text) = nested.filter(|text| !text.trim().is_empty()) {
            if text.len() > NESTED_BYTES {
                return Err(CallFailure::parameter(format!(
                    "params has {} bytes, at most {NESTED_BYTES} are possible",
                    text.len()
                )));
            }
            let shown = shown(&text);
            let json: Json = serde_json::from_str(&text).map_err(|error| {
                CallFailure::parameter(format!("parse params failed: {shown} is not JSON: {error}"))
            })?;
            let object = match json {
                Json::Object(object) => object,
                Json::Null => serde_json::Map::new(),
                _ => {
                    return Err(CallFailure::parameter(format!(
                        "params is no JSON object: {shown}"
                    )));
                }
            };
            for (key, value) in object {
                all.entry(key).or_insert_with(|| match value {
                    Json::String(text) => text,
                    other => other.to_string(),
                });
            }
        }
        Ok(Self(all))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|text| !text.is_empty())
    }

    /// A number, where there is one of this name.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, CallFailure> {
        let number = |text: &str| {
            text.trim().parse().map_err(|_| {
                let shown = shown(text);
                CallFailure::parameter(format!("{name} [{shown}] is invalid: a number is needed"))
            })
        };
        self.get(name).map(number).transpose()
    }

    /// A boolean; false unless given.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    pub(crate) fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }
}

/// What is told of a text that somebody sent: an answer is not counted before it is made.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES)]
}

/// Pairs as they are kept: by name, nothing unpacked.
pub(crate) fn properties(pairs: Vec<KeyValuePair>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
}

/// The other way round.
pub(crate) fn pairs(properties: &BTreeMap<String, String>) -> Vec<KeyValuePair> {
    properties.iter().map(|(key, value)| pair(key, value)).collect()
}

pub(crate) fn pair(key: impl Into<String>, value: impl Into<String>) -> KeyValuePair {
    KeyValuePair { key: key.into(), value: value.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_flat_nested_or_both() {
        let nested = r#"{"ef":64,"radius":1.5,"hints":"disable","topk":3,"keep":true}"#;
        let given = vec![pair("topk", "10"), pair("params", nested), pair("empty", "")];
        let parameters = Parameters::new(given).unwrap();
        assert_eq!(parameters.number("ef").unwrap(), Some(64));
        assert_eq!(parameters.number("radius").unwrap(), Some(1.5));
        assert_eq!(parameters.number("topk").unwrap(), Some(10), "the outer one counts");
        assert_eq!(parameters.get("hints"), Some("disable"));
        assert!(parameters.flag("keep") && !parameters.flag("other"));
        assert_eq!(parameters.get("empty"), None);
        assert!(parameters.number::<u32>("hints").is_err());
    }

    #[test]
    fn params_that_are_no_object_are_refused() {
        for text in ["[1]", "{", "7"] {
            assert!(Parameters::new(vec![pair("params", text)]).is_err(), "{text}");
        }
        for text in ["", " ", "{}", "null"] {
            assert!(Parameters::new(vec![pair("params", text)]).is_ok(), "{text}");
        }
    }

    #[test]
    fn long_ones_are_not_parsed_and_not_told_again() {
        let long = format!("{{\"a\":[0{}]}}", ",0".repeat(NESTED_BYTES));
        let error = Parameters::new(vec![pair("params", &long)]).unwrap_err();
        assert!(error.reason.contains("at most 65536"), "{}", error.reason);
        let error = Parameters::new(vec![pair("params", "é".repeat(9000))]).unwrap_err();
        assert!(error.reason.len() < 2 * SHOWN_BYTES, "{}", error.reason);
        let parameters = Parameters::new(vec![pair("ef", "x".repeat(9000))]).unwrap();
        assert!(parameters.number::<u32>("ef").unwrap_err().reason.len() < 2 * SHOWN_BYTES);
    }
}
