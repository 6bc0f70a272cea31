//! What stands at a path of a JSON text, without keeping the rest.
//!
//! A key leads into objects only and a position into arrays only. Of a key that an object has
//! several times the last counts, as for everybody who parses the whole.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::tree::PathStep;

/// The value at `path`; `None` where the text has none there.
///
/// # Errors
/// Text that is not JSON.
pub(super) fn find(text: &str, path: &[PathStep]) -> Result<Option<Value>, serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let found = At(path).deserialize(&mut parser)?;
    parser.end()?;
    Ok(found)
}

struct At<'p>(&'p [PathStep]);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Option<Value>, D::Error> {
        match self.0 {
            [] => WholeValue.deserialize(parser).map(Some),
            _ => parser.deserialize_any(self),
        }
    }
}

/// Values into which no step leads.
macro_rules! nothing {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E>(self, _: $type) -> Result<Option<Value>, E> {
            Ok(None)
        })*
    };
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    nothing!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Value>, A::Error> {
        let (mut found, mut left) = (
            None,
            match self.0.first() {
                Some(PathStep::Index(at)) => Some(*at),
                _ => None,
            },
        );
        loop {
            if left == Some(0) {
                match seq.next_element_seed(At(&self.0[1..]))? {
                    Some(value) => found = value,
                    None => return Ok(found),
                }
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(found);
            }
            left = left.and_then(|left| left.checked_sub(1));
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Value>, A::Error> {
        let mut found = None;
        let wanted = match self.0.first() {
            Some(PathStep::Key(key)) => Some(key.as_str()),
            _ => None,
        };
        while let Some(is_wanted) = map.next_key_seed(IsKey(wanted))? {
            if is_wanted {
                found = map.next_value_seed(At(&self.0[1..]))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// The value as it is written. Asked for one itself, `serde_json` takes an object whose first key is
/// its name for raw text as that text, and whoever inserts a row may choose that key.
struct WholeValue;

impl<'de> DeserializeSeed<'de> for WholeValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        parser.deserialize_any(self)
    }
}

/// Values without others in them.
macro_rules! taken {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E>(self, value: $type) -> Result<Value, E> {
            Ok(value.into())
        })*
    };
}

impl<'de> Visitor<'de> for WholeValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    taken!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(WholeValue)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            object.insert(key, map.next_value_seed(WholeValue)?);
        }
        Ok(Value::Object(object))
    }
}

/// Whether a key is the one that is looked for.
struct IsKey<'k>(Option<&'k str>);

impl<'de> DeserializeSeed<'de> for IsKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<bool, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for IsKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(self.0 == Some(key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::value::check_json;

    /// The key by which `serde_json` knows raw text.
    const RAW: &str = "$serde_json::private::RawValue";

    #[test]
    fn an_object_is_one_whatever_its_keys_are() {
        let path = [PathStep::Key("a".to_owned())];
        for inner in ["1", r#""{""#, r#""\"red\"""#, r#""null""#, r#""1", "b": 2"#] {
            let text = format!(r#"{{"a": {{"{RAW}": {inner}}}}}"#);
            let found = find(&text, &path).unwrap().unwrap();
            assert!(found.get(RAW).is_some(), "{text}: {found}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            r#"[a"\\{}1]{0,4}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let key = prop::sample::select(vec!["a", "b", RAW]).prop_map(str::to_owned);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec((key, inner), 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_was_let_in_is_found_as_it_was_written(value in values()) {
            let text = value.to_string();
            prop_assert_eq!(check_json(&text), Ok(()), "{}", text);
            prop_assert_eq!(find(&text, &[]).unwrap(), Some(value.clone()));
            for (key, inner) in value.as_object().into_iter().flatten() {
                let found = find(&text, &[PathStep::Key(key.clone())]).unwrap();
                prop_assert_eq!(found.as_ref(), Some(inner), "{}", text);
            }
        }
    }

    #[test]
    fn paths_lead_through_objects_and_arrays() {
        let key = |key: &str| PathStep::Key(key.to_owned());
        let text = r#"{"a": {"b": [1, {"c": "x"}, 2.0]}, "n": null, "k": 1, "k": {"0": 3}}"#;
        let at = |path: &[PathStep]| find(text, path).unwrap();
        assert_eq!(at(&[key("a"), key("b"), PathStep::Index(0)]), Some(json!(1)));
        assert_eq!(at(&[key("a"), key("b"), PathStep::Index(1), key("c")]), Some(json!("x")));
        assert_eq!(at(&[key("a"), key("b"), PathStep::Index(2)]), Some(json!(2.0)));
        assert_eq!(at(&[key("a"), key("b"), PathStep::Index(3)]), None);
        assert_eq!(at(&[key("n")]), Some(json!(null)));
        assert_eq!(at(&[key("n"), key("x")]), None);
        assert_eq!(at(&[key("k"), key("0")]), Some(json!(3)));
        assert_eq!(at(&[key("k"), PathStep::Index(0)]), None);
        assert_eq!(at(&[key("a"), key("b"), key("0")]), None);
        assert_eq!(at(&[PathStep::Index(0)]), None);
        assert_eq!(find("[1]", &[]).unwrap(), Some(json!([1])));
        assert_eq!(find("7", &[key("a")]).unwrap(), None);
        assert!(find("{", &[key("a")]).is_err() && find("{} x", &[key("a")]).is_err());
    }
}
