//! Values for the names in braces of a filter.

use std::collections::HashMap;

use pipeann_db::expr::{Constant, Templates};

use crate::proto::schema::template_array_value::Data;
use crate::proto::schema::template_value::Val;
use crate::proto::schema::{TemplateArrayValue, TemplateValue};
use crate::status::CallFailure;

/// All of a request.
pub(crate) fn templates(given: HashMap<String, TemplateValue>) -> Result<Templates, CallFailure> {
    let named = |(name, value): (String, TemplateValue)| {
        let missing = || CallFailure::parameter(format!("expression template {name} has no value"));
        let value = constant(value).ok_or_else(missing)?;
        Ok((name, value))
    };
    given.into_iter().map(named).collect()
}

fn constant(value: TemplateValue) -> Option<Constant> {
    Some(match value.val? {
        Val::BoolVal(value) => Constant::Bool(value),
        Val::Int64Val(value) => Constant::Int(value),
        Val::FloatVal(value) => Constant::Float(value),
        Val::StringVal(value) => Constant::Text(value),
        Val::ArrayVal(list) => list_of(list)?,
    })
}

fn list_of(list: TemplateArrayValue) -> Option<Constant> {
    let values: Vec<Constant> = match list.data {
        None => Vec::new(),
        Some(Data::BoolData(list)) => list.data.into_iter().map(Constant::Bool).collect(),
        Some(Data::LongData(list)) => list.data.into_iter().map(Constant::Int).collect(),
        Some(Data::DoubleData(list)) => list.data.into_iter().map(Constant::Float).collect(),
        Some(Data::StringData(list)) => list.data.into_iter().map(Constant::Text).collect(),
        Some(Data::ArrayData(lists)) => {
            lists.data.into_iter().map(list_of).collect::<Option<_>>()?
        }
        Some(Data::JsonData(list)) => {
            let parse = |text: Vec<u8>| of_json(serde_json::from_slice(&text).ok()?);
            list.data.into_iter().map(parse).collect::<Option<_>>()?
        }
    };
    Some(Constant::List(values))
}

/// Lists of mixed types come as JSON.
fn of_json(json: serde_json::Value) -> Option<Constant> {
    use serde_json::Value as Json;
    Some(match json {
        Json::Bool(value) => Constant::Bool(value),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Constant::Int(integer),
            None => Constant::Float(number.as_f64()?),
        },
        Json::String(text) => Constant::Text(text),
        Json::Array(list) => Constant::List(list.into_iter().map(of_json).collect::<Option<_>>()?),
        Json::Null | Json::Object(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::decoded::CONSTANT_BYTES;

    #[test]
    fn what_a_value_of_a_list_becomes_is_counted_before_it_is_decoded() {
        assert!(size_of::<Constant>() as u64 <= CONSTANT_BYTES);
    }
}
