//! The schema itself.

use serde::{Deserialize, Serialize};

use super::error::{FieldRule, SchemaError};
use super::field::{DYNAMIC_FIELD, Field, FieldAlteration, FieldId, FieldSpec};
use super::key::KeyType;
use super::limits::{FIRST_FIELD_ID, MAX_FIELDS, MAX_VECTOR_FIELDS};
use super::rules::{check_added, check_field};
use crate::value::{DataType, ScalarType};

/// Collects fields for a new schema.
#[derive(Clone, Debug, Default)]
pub struct SchemaBuilder {
    description: String,
    fields: Vec<FieldSpec>,
    dynamic: bool,
}

impl SchemaBuilder {
    /// Describes the collection, for the reader.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Appends a field.
    #[must_use]
    pub fn field(mut self, spec: FieldSpec) -> Self {
        self.fields.push(spec);
        self
    }

    /// Whether rows can hold keys that are not declared.
    #[must_use]
    pub fn dynamic(mut self, dynamic: bool) -> Self {
        self.dynamic = dynamic;
        self
    }

    /// The schema, version 1, with ids in the order of the fields.
    ///
    /// # Errors
    /// [`SchemaError`] with the first rule that is broken.
    pub fn build(self) -> Result<Schema, SchemaError> {
        let mut parts = SchemaParts {
            version: 1,
            description: self.description,
            next_field_id: FIRST_FIELD_ID,
            fields: Vec::new(),
        };
        let dynamic = self.dynamic.then(FieldSpec::dynamic);
        let declared = self.fields.len();
        for (at, spec) in self.fields.into_iter().chain(dynamic).enumerate() {
            if at < declared {
                // Before all fields are looked at: `$meta` is no name for a declared one.
                check_field(&spec)?;
            }
            parts.push(spec);
        }
        parts.fields.shrink_to_fit();
        parts.try_into()
    }
}

/// What a schema is saved as; not valid by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaParts {
    version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    next_field_id: u32,
    fields: Vec<Field>,
}

impl SchemaParts {
    fn push(&mut self, spec: FieldSpec) {
        self.fields.push(Field { id: FieldId(self.next_field_id), spec });
        self.next_field_id += 1;
    }
}

/// The fields of a collection, valid. Fields stand in the order of their ids; a later version
/// has the fields of the earlier one at the same places, and more behind them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "SchemaParts", try_from = "SchemaParts")]
pub struct Schema {
    version: u32,
    description: String,
    next_field_id: u32,
    fields: Vec<Field>,
    primary_key: usize,
    key_type: KeyType,
    partition_key: Option<usize>,
    dynamic: Option<usize>,
}

impl Schema {
    /// Starts a new schema.
    pub fn builder() -> SchemaBuilder {
        SchemaBuilder::default()
    }

    /// Counts the changes of the schema, from 1.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What the collection is about.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// All fields by ascending id, the dynamic one among them.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Position of the field with this name in [`fields`](Self::fields).
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.spec.name == name)
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|at| &self.fields[at])
    }

    /// The field with this id.
    pub fn field_by_id(&self, id: FieldId) -> Option<&Field> {
        self.fields.iter().find(|field| field.id == id)
    }

    /// The primary key.
    pub fn primary_key(&self) -> &Field {
        &self.fields[self.primary_key]
    }

    /// Position of the primary key in [`fields`](Self::fields).
    pub fn primary_key_position(&self) -> usize {
        self.primary_key
    }

    /// Type of the primary key.
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// Position of the partition key, where there is one.
    pub fn partition_key_position(&self) -> Option<usize> {
        self.partition_key
    }

    /// Position of the dynamic field, where there is one.
    pub fn dynamic_position(&self) -> Option<usize> {
        self.dynamic
    }

    /// The schema under its next version, with one more field.
    ///
    /// # Errors
    /// [`SchemaError`] where the field breaks a rule; it has to be nullable or have a default,
    /// and cannot be a key or a vector.
    pub fn with_field(&self, spec: FieldSpec) -> Result<Self, SchemaError> {
        check_added(&spec)?;
        self.next_version(spec)
    }

    /// The schema under its next version, with a dynamic field.
    ///
    /// # Errors
    /// [`SchemaError::AlreadyDynamic`] where it has one.
    pub fn with_dynamic_field(&self) -> Result<Self, SchemaError> {
        if self.dynamic.is_some() {
            return Err(SchemaError::AlreadyDynamic);
        }
        self.next_version(FieldSpec::dynamic())
    }

    /// The schema under its next version, with a declared field altered; the same schema where
    /// that changes nothing.
    ///
    /// # Errors
    /// [`SchemaError::UnknownField`] where no field of this name was declared, or the first rule
    /// that the altered field breaks.
    pub fn with_altered_field(
        &self,
        name: &str,
        alteration: &FieldAlteration,
    ) -> Result<Self, SchemaError> {
        let at = self.position(name).filter(|at| Some(*at) != self.dynamic);
        let at = at.ok_or_else(|| SchemaError::UnknownField { field: name.into() })?;
        let altered = alteration.of(&self.fields[at].spec);
        if altered == self.fields[at].spec {
            return Ok(self.clone());
        }
        let mut parts = SchemaParts::from(self.clone());
        parts.version += 1;
        parts.fields[at].spec = altered;
        parts.try_into()
    }

    /// The same schema with another description; the version stays.
    #[must_use]
    pub fn with_description(&self, description: impl Into<String>) -> Self {
        Self { description: description.into(), ..self.clone() }
    }

    fn next_version(&self, spec: FieldSpec) -> Result<Self, SchemaError> {
        let mut parts = SchemaParts::from(self.clone());
        parts.version += 1;
        parts.push(spec);
        parts.try_into()
    }
}

impl From<Schema> for SchemaParts {
    fn from(schema: Schema) -> Self {
        let Schema { version, description, next_field_id, fields, .. } = schema;
        Self { version, description, next_field_id, fields }
    }
}

impl TryFrom<SchemaParts> for Schema {
    type Error = SchemaError;

    /// Checks all rules, also of what was saved.
    fn try_from(parts: SchemaParts) -> Result<Self, SchemaError> {
        let SchemaParts { version, description, next_field_id, fields } = parts;
        check_ids(&fields, next_field_id)?;
        for (at, Field { spec, .. }) in fields.iter().enumerate() {
            if spec.name == DYNAMIC_FIELD && *spec == FieldSpec::dynamic() {
                // The one field that the database declares itself.
            } else {
                check_field(spec)?;
            }
            if fields[..at].iter().any(|before| before.spec.name == spec.name) {
                let field = spec.name.clone();
                return Err(SchemaError::Field { field, rule: FieldRule::Duplicate });
            }
        }
        let dynamic = fields.iter().position(|field| field.spec.is_dynamic());
        let declared = fields.len() - usize::from(dynamic.is_some());
        if declared > MAX_FIELDS {
            return Err(SchemaError::TooManyFields { found: declared });
        }
        match fields.iter().filter(|f| f.spec.data_type.vector_kind().is_some()).count() {
            0 => return Err(SchemaError::NoVector),
            found if found > MAX_VECTOR_FIELDS => {
                return Err(SchemaError::TooManyVectors { found });
            }
            _ => {}
        }
        let primary_key = only(&fields, "primary key", |spec| spec.primary_key)?;
        let primary_key = primary_key.ok_or(SchemaError::NoPrimaryKey)?;
        let key_type = match fields[primary_key].spec.data_type {
            DataType::Scalar(ScalarType::Int64) => KeyType::Int64,
            DataType::Scalar(ScalarType::VarChar) => KeyType::VarChar,
            other => unreachable!("a primary key of {other} was refused"),
        };
        let partition_key = only(&fields, "partition key", |spec| spec.partition_key)?;
        Ok(Self {
            version,
            description,
            next_field_id,
            fields,
            primary_key,
            key_type,
            partition_key,
            dynamic,
        })
    }
}

fn check_ids(fields: &[Field], below: u32) -> Result<(), SchemaError> {
    let mut least = FIRST_FIELD_ID;
    for Field { id, spec } in fields {
        if !(least..below).contains(&id.0) {
            let field = spec.name.clone();
            return Err(SchemaError::Id { field, found: id.0, least, below });
        }
        least = id.0 + 1;
    }
    Ok(())
}

/// Position of the one field with a role.
fn only(
    fields: &[Field],
    role: &'static str,
    has: impl Fn(&FieldSpec) -> bool,
) -> Result<Option<usize>, SchemaError> {
    let mut found = fields.iter().enumerate().filter(|(_, field)| has(&field.spec));
    match (found.next(), found.next()) {
        (Some((_, first)), Some((_, second))) => Err(SchemaError::TwoKeys {
            role,
            first: first.spec.name.clone(),
            second: second.spec.name.clone(),
        }),
        (first, _) => Ok(first.map(|(at, _)| at)),
    }
}
