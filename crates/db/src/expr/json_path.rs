//! What stands at a path of a JSON text, without keeping the rest.
//!
//! A key leads into objects only and a position into arrays only. Of a key that an object has
//! several times the last counts, as for everybody who parses the whole.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

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
            [] => serde::Deserialize::deserialize(parser).map(Some),
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
    use serde_json::json;

    use super::*;

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
