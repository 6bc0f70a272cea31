//! Which fields of its rows a request wants to see.

use std::collections::HashSet;

use pipeann_db::schema::Schema;

use crate::status::CallFailure;

/// The output of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output<'s> {
    /// Names of fields to be read, in the order of the schema.
    pub(crate) fields: Vec<&'s str>,
    /// Names as they were given; keys of the dynamic field under their own.
    pub(crate) names: Vec<String>,
}

impl<'s> Output<'s> {
    /// Resolves names. `*` stands for all fields. A name that no field has is a key of the dynamic
    /// field, where there is one.
    pub(crate) fn new(schema: &'s Schema, given: &[String]) -> Result<Self, CallFailure> {
        let mut names: Vec<String> = Vec::new();
        let mut wanted = vec![false; schema.fields().len()];
        for name in given.iter().map(|name| name.trim()) {
            if name != "*"
                && name.starts_with(|first: char| {
                    first.is_ascii_punctuation() && !"_$".contains(first)
                })
            {
                return Err(CallFailure::parameter(format!(
                    "parse output field name failed: {name}"
                )));
            }
            if name == "*" {
                wanted.fill(true);
                names.extend(schema.fields().iter().map(|field| field.spec.name.clone()));
                continue;
            }
            let at = schema.position(name).or(schema.dynamic_position());
            let at = at.ok_or_else(|| CallFailure::parameter(format!("field {name} not exist")))?;
            wanted[at] = true;
            names.push(name.to_owned());
        }
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        let fields = schema.fields().iter().zip(&wanted).filter(|(_, wanted)| **wanted);
        Ok(Self { fields: fields.map(|(field, _)| field.spec.name.as_str()).collect(), names })
    }

    /// The same, with the primary key.
    pub(crate) fn with_key(mut self, schema: &'s Schema) -> Self {
        let key = schema.primary_key().spec.name.as_str();
        if !self.fields.contains(&key) {
            self.fields.insert(0, key);
            self.names.insert(0, key.to_owned());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use pipeann_db::schema::FieldSpec;
    use pipeann_db::value::{DataType, ScalarType, VectorKind};

    use super::*;

    fn schema(dynamic: bool) -> Schema {
        Schema::builder()
            .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
            .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2))
            .dynamic(dynamic)
            .build()
            .unwrap()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn keys_of_rows_are_read_from_the_dynamic_field() {
        let schema = schema(true);
        let output = Output::new(&schema, &names(&["color", "v", "color"])).unwrap();
        assert_eq!(output.fields, ["v", "$meta"]);
        assert_eq!(output.names, ["color", "v"]);
        let output = Output::new(&schema, &names(&["*"])).unwrap().with_key(&schema);
        assert_eq!(output.fields, ["id", "v", "$meta"]);
        assert_eq!(output.names, ["id", "v", "$meta"]);
    }

    #[test]
    fn an_unknown_name_is_refused_where_no_field_is_dynamic() {
        let schema = schema(false);
        let error = Output::new(&schema, &names(&["color"])).unwrap_err();
        assert_eq!(error.reason, "field color not exist");
        let output = Output::new(&schema, &[]).unwrap();
        assert!(output.fields.is_empty());
        let error = Output::new(&schema, &names(&["%"])).unwrap_err();
        assert_eq!(error.reason, "parse output field name failed: %");
        assert_eq!(output.with_key(&schema).names, ["id"]);
    }
}
