//! Whether text is JSON, and the keys of an object. The text itself is kept as it was given:
//! order of keys, and the difference between 1 and 1.0, survive.
//!
//! Parsed with `serde_json` into nothing: strings are decoded (a lone surrogate is refused) and
//! numbers converted (one beyond a double is refused), so that whoever parses the text later
//! cannot fail. Nesting is bounded at 128 levels. NaN and infinity are not JSON.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Why text is not the JSON it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It does not parse.
    #[error("not JSON: {0}")]
    Syntax(String),
    /// It parses, and is something else than an object.
    #[error("a JSON object is needed, not another JSON value")]
    NotAnObject,
}

/// Checks that `text` is one JSON value.
///
/// # Errors
/// [`JsonError::Syntax`] with line and column.
pub fn check_json(text: &str) -> Result<(), JsonError> {
    parse(text, Anything)
}

/// Checks that `text` is one JSON object, and shows each of its own keys to `key`.
///
/// # Errors
/// [`JsonError`] where it does not parse or is no object.
pub fn check_json_object(text: &str, key: impl FnMut(&str)) -> Result<(), JsonError> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    if !text.trim_start_matches(blank).starts_with('{') {
        check_json(text)?;
        return Err(JsonError::NotAnObject);
    }
    parse(text, ObjectKeys(key))
}

/// The keys of one object, and those of another one that take their place or come behind them. Their
/// values stay as they are written.
///
/// # Errors
/// [`JsonError`] where one does not parse or is no object.
pub fn merge_json_objects(base: &str, over: &str) -> Result<String, JsonError> {
    type Entries<'a> = Vec<(String, &'a RawValue)>;
    fn entries(text: &str) -> Result<Entries<'_>, JsonError> {
        check_json_object(text, |_| ())?;
        let mut parser = serde_json::Deserializer::from_str(text);
        let entries = parser.deserialize_map(ObjectEntries);
        entries.map_err(|error| JsonError::Syntax(error.to_string()))
    }
    let mut merged = entries(base)?;
    let mut places: HashMap<String, usize> = HashMap::with_capacity(merged.len());
    for (at, (key, _)) in merged.iter().enumerate() {
        places.entry(key.clone()).or_insert(at);
    }
    for (key, value) in entries(over)? {
        match places.get(&key) {
            Some(at) => merged[*at].1 = value,
            None => {
                places.insert(key.clone(), merged.len());
                merged.push((key, value));
            }
        }
    }
    Ok(written(&merged))
}

/// An object without some of its keys. What stays is written as it was; none where all of it stays, or
/// where it is no object.
pub fn without_json_keys(text: &str, is_left_out: impl Fn(&str) -> bool) -> Option<String> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let mut entries = parser.deserialize_map(ObjectEntries).ok()?;
    let all = entries.len();
    entries.retain(|(key, _)| !is_left_out(key));
    (entries.len() < all).then(|| written(&entries))
}

fn written(entries: &[(String, &RawValue)]) -> String {
    let entry = |(key, value): &(String, &RawValue)| {
        let key = serde_json::to_string(key).expect("a text is written as JSON");
        format!("{key}:{value}")
    };
    format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","))
}

/// Reads an object as its keys, and its values as they are written.
struct ObjectEntries;

impl<'de> Visitor<'de> for ObjectEntries {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

fn parse<'de>(
    text: &'de str,
    seed: impl DeserializeSeed<'de, Value = ()>,
) -> Result<(), JsonError> {
    let mut parser = serde_json::Deserializer::from_str(text);
    seed.deserialize(&mut parser)
        .and_then(|()| parser.end())
        .map_err(|error| JsonError::Syntax(error.to_string()))
}

/// Accepts every value and keeps none.
struct Anything;

impl<'de> DeserializeSeed<'de> for Anything {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Anything {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Anything)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(Anything)?.is_some() {
            map.next_value_seed(Anything)?;
        }
        Ok(())
    }
}

/// Accepts an object and shows its keys.
struct ObjectKeys<F>(F);

impl<'de, F: FnMut(&str)> DeserializeSeed<'de> for ObjectKeys<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de, F: FnMut(&str)> Visitor<'de> for ObjectKeys<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(OneKey(&mut self.0))?.is_some() {
            map.next_value_seed(Anything)?;
        }
        Ok(())
    }
}

struct OneKey<'f, F>(&'f mut F);

impl<'de, F: FnMut(&str)> DeserializeSeed<'de> for OneKey<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_str(self)
    }
}

impl<F: FnMut(&str)> Visitor<'_> for OneKey<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<(), E> {
        (self.0)(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(text: &str) -> Result<Vec<String>, JsonError> {
        let mut found = Vec::new();
        check_json_object(text, |key| found.push(key.to_owned()))?;
        Ok(found)
    }

    #[test]
    fn keys_of_an_object_are_shown_decoded_and_without_those_below() {
        assert_eq!(keys(r#" {"a":{"b":[1]},"\u0063":null} "#).unwrap(), ["a", "c"]);
        assert!(keys("{}").unwrap().is_empty());
    }

    #[test]
    fn other_values_are_no_objects() {
        for text in ["[]", "1", "null", "\"{}\"", " true"] {
            assert_eq!(keys(text), Err(JsonError::NotAnObject), "{text}");
            assert_eq!(check_json(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_a_later_parser_would_refuse_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for text in
            ["", "{", "{} x", "NaN", "1e999", r#""\ud800""#, "'a'", "{a:1}", "[1,]", &deep, "\u{0}"]
        {
            assert!(matches!(check_json(text), Err(JsonError::Syntax(_))), "{text}");
            assert!(matches!(keys(text), Err(JsonError::Syntax(_))), "{text}");
        }
    }

    #[test]
    fn keys_are_left_out_and_what_stays_is_as_it_was_written() {
        let without = |text| without_json_keys(text, |key| key == "a" || key == "b");
        let text = r#"{"z":1.0, "\u0061":{"z":2},"b":null,"y": [1, 2e0]}"#;
        assert_eq!(without(text).as_deref(), Some(r#"{"z":1.0,"y":[1, 2e0]}"#));
        assert_eq!(without(r#"{"a":1}"#).as_deref(), Some("{}"));
        assert_eq!(without(r#"{"z":{"a":1}}"#), None);
        assert_eq!(without("[1]"), None);
    }

    /// The key by which `serde_json` knows raw text, which is a key like others here.
    const RAW: &str = "$serde_json::private::RawValue";

    #[test]
    fn a_key_is_let_in_whatever_others_take_it_for() {
        for value in ["1", r#""{""#, r#""1""#, "{}"] {
            let text = format!(r#"{{"{RAW}":{value}}}"#);
            assert_eq!(check_json(&text), Ok(()), "{text}");
            assert_eq!(keys(&text).unwrap(), [RAW], "{text}");
            assert_eq!(merge_json_objects("{}", &text).as_ref(), Ok(&text));
        }
    }

    /// Texts in the shape of JSON, in which some values are none.
    fn shaped() -> impl Strategy<Value = String> {
        let good = vec!["1", "-0.5e3", "18446744073709551616", r#""x""#, r#""\u00e9""#, "null"];
        let bad = vec!["", "01", "1e999", "NaN", r#""\ud800""#, "\"\u{1}\"", "'x'", "1 2"];
        let select = prop::sample::select::<&str>;
        let leaf = prop_oneof![9 => select(good), 1 => select(bad)].prop_map(str::to_owned);
        leaf.prop_recursive(4, 24, 4, |inner| {
            let key = prop::sample::select(vec!["k", "l", RAW]);
            let entry = (key, inner.clone()).prop_map(|(key, value)| format!("\"{key}\":{value}"));
            let some = |of: BoxedStrategy<String>| prop::collection::vec(of, 0..4);
            prop_oneof![
                some(inner.boxed()).prop_map(|items| format!("[{}]", items.join(","))),
                some(entry.boxed()).prop_map(|entries| format!("{{{}}}", entries.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn agrees_with_a_full_parse_in_whatever_stands_inside(text in shaped()) {
            // Where it finds that key, `serde_json` parses something else.
            let full = serde_json::from_str::<serde_json::Value>(&text.replace(RAW, "key"));
            prop_assert_eq!(check_json(&text).is_ok(), full.is_ok(), "{}", text);
            let object = full.is_ok_and(|value| value.is_object());
            prop_assert_eq!(keys(&text).is_ok(), object, "{}", text);
        }

        #[test]
        fn agrees_with_a_full_parse(text in "[\\[\\]{}\",:0-9eE.+\\-tfn\\\\u ]{0,12}") {
            let full = serde_json::from_str::<serde_json::Value>(&text);
            prop_assert_eq!(check_json(&text).is_ok(), full.is_ok(), "{}", text);
            let object = full.is_ok_and(|value| value.is_object());
            prop_assert_eq!(keys(&text).is_ok(), object, "{}", text);
        }
    }
}
