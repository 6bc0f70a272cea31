//! One field of a schema.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::value::{DataType, ScalarType, Value, ValueRef};

/// Name of the field that holds the keys a schema does not declare, as one JSON object.
pub const DYNAMIC_FIELD: &str = "$meta";

/// A field of a collection: never used twice in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FieldId(pub u32);

/// What a field should be. It is checked when a schema is built from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldSpec {
    /// Name, unique in the schema.
    pub name: String,
    /// Type of the values.
    pub data_type: DataType,
    /// For the reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether this is the primary key.
    #[serde(default, skip_serializing_if = "is_false")]
    pub primary_key: bool,
    /// Whether the primary key is assigned, and not given.
    #[serde(default, skip_serializing_if = "is_false")]
    pub auto_id: bool,
    /// Whether rows are spread over partitions by this field.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partition_key: bool,
    /// Whether a row may have no value.
    #[serde(default, skip_serializing_if = "is_false")]
    pub nullable: bool,
    /// The value of rows to which none is given, and of rows that are given null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The longest text in bytes: of a varchar, of each element of an array of varchar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u32>,
    /// The most elements of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_capacity: Option<u32>,
    /// Components of a dense vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<u32>,
    /// What the caller wants to be kept with the field; the database does not read it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl FieldSpec {
    /// A field without any rule but its type.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self {
            name: name.into(),
            data_type,
            description: String::new(),
            primary_key: false,
            auto_id: false,
            partition_key: false,
            nullable: false,
            default: None,
            max_bytes: None,
            max_capacity: None,
            dim: None,
            properties: BTreeMap::new(),
        }
    }

    /// Makes it the primary key, given with each row.
    #[must_use]
    pub fn primary_key(mut self) -> Self {
        self.primary_key = true;
        self
    }

    /// Makes it the primary key, assigned to each row.
    #[must_use]
    pub fn auto_id(mut self) -> Self {
        self.primary_key = true;
        self.auto_id = true;
        self
    }

    /// Makes it the partition key.
    #[must_use]
    pub fn partition_key(mut self) -> Self {
        self.partition_key = true;
        self
    }

    /// Lets rows have no value.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Names the value of rows to which none is given.
    #[must_use]
    pub fn default_value(mut self, value: Value) -> Self {
        self.default = Some(value);
        self
    }

    /// Bounds texts, in bytes.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u32) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Bounds arrays, in elements.
    #[must_use]
    pub fn max_capacity(mut self, elements: u32) -> Self {
        self.max_capacity = Some(elements);
        self
    }

    /// Sets the components of a dense vector.
    #[must_use]
    pub fn dim(mut self, components: u32) -> Self {
        self.dim = Some(components);
        self
    }

    /// The dynamic field.
    pub(super) fn dynamic() -> Self {
        Self::new(DYNAMIC_FIELD, DataType::Json)
    }

    /// Whether this is the dynamic field; no other can have its name.
    pub fn is_dynamic(&self) -> bool {
        self.name == DYNAMIC_FIELD
    }

    /// What a row holds to which nothing is given: the default, `{}` in the dynamic field,
    /// else null, which only a nullable field accepts.
    pub fn fallback(&self) -> ValueRef<'_> {
        match &self.default {
            Some(default) => default.as_ref(),
            None if self.is_dynamic() => ValueRef::Json("{}"),
            None => ValueRef::Null,
        }
    }

    /// Whether a row needs to be given a value.
    pub(super) fn is_required(&self) -> bool {
        !self.nullable && self.fallback().is_null()
    }

    /// The type of texts in it, for which `max_bytes` counts.
    pub(super) fn holds_texts(&self) -> bool {
        matches!(
            self.data_type,
            DataType::Scalar(ScalarType::VarChar) | DataType::Array(ScalarType::VarChar)
        )
    }
}

/// What changes about a field; `None` leaves it. The type, the keys and what a row without a
/// value holds stay as they are, since rows depend on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldAlteration {
    /// Another limit of texts, in bytes. Longer ones that were written before stay.
    pub max_bytes: Option<u32>,
    /// Another limit of arrays, in elements. Longer ones that were written before stay.
    pub max_capacity: Option<u32>,
    /// Another description.
    pub description: Option<String>,
    /// Properties to add or replace.
    pub set: BTreeMap<String, String>,
    /// Properties to take away; those that are not there are no error.
    pub remove: Vec<String>,
}

impl FieldAlteration {
    /// `spec` after the change; not checked.
    pub(super) fn of(&self, spec: &FieldSpec) -> FieldSpec {
        let mut altered = spec.clone();
        altered.max_bytes = self.max_bytes.or(spec.max_bytes);
        altered.max_capacity = self.max_capacity.or(spec.max_capacity);
        if let Some(description) = &self.description {
            altered.description.clone_from(description);
        }
        altered.properties.extend(self.set.clone());
        altered.properties.retain(|key, _| !self.remove.contains(key));
        altered
    }
}

/// A field of a schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Its id.
    pub id: FieldId,
    /// What it is.
    pub spec: FieldSpec,
}
