//! Why a schema or a batch is refused: the field, the row, the rule.

use super::limits::{AUTO_ID_TEXT_BYTES, MAX_FIELDS, MAX_JSON_BYTES, MAX_VECTOR_FIELDS};
use super::name::NameError;
use crate::ids::ErrorClass;
use crate::value::{DataType, JsonError, RowError, ScalarType, SparseError};

/// Why a value does not fit its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueFault {
    /// An integer out of the range of the field's type.
    #[error("{found} is out of the range of {wanted}")]
    Range {
        /// The integer.
        found: i64,
        /// Type of the field.
        wanted: ScalarType,
    },
    /// NaN or infinity.
    #[error("NaN and infinity are not accepted")]
    NotFinite,
    /// A vector too long for distances in f32.
    #[error(
        "the squared norm of the vector is more than an f32 holds, in which distances are computed"
    )]
    Norm,
    /// A text longer than the field's limit.
    #[error("the text has {bytes} bytes, the field takes {most}")]
    TooLong {
        /// Bytes of the text.
        bytes: usize,
        /// Limit of the field.
        most: u32,
    },
    /// A primary key that is longer than any can be.
    #[error(
        "the primary key takes {bytes} bytes, {most} are possible: two more than its text, and one more \
         for each zero byte"
    )]
    KeyTooLong {
        /// Bytes of the key, as it is stored.
        bytes: usize,
        /// The most that are possible.
        most: usize,
    },
    /// Too many elements.
    #[error("the array has {elements} elements, the field takes {most}")]
    TooManyElements {
        /// Elements of the array.
        elements: usize,
        /// Limit of the field.
        most: u32,
    },
    /// An element of an array that does not fit.
    #[error("element {at}: {fault}")]
    Element {
        /// Position in the array.
        at: usize,
        /// What is wrong with it.
        fault: Box<ValueFault>,
    },
    /// Text that is no JSON, or no object where one is needed.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// JSON text that is too long.
    #[error("the JSON text has {bytes} bytes, {MAX_JSON_BYTES} are possible")]
    JsonTooLong {
        /// Bytes of the text.
        bytes: usize,
    },
    /// A dynamic key with the name of a declared field.
    #[error("the dynamic key `{key}` is the name of a field; give it as that field")]
    ShadowedField {
        /// The key.
        key: String,
    },
    /// Bytes that are no sparse vector.
    #[error(transparent)]
    Sparse(#[from] SparseError),
}

/// The rule that a field breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldRule {
    /// A name that the database uses itself.
    #[error("the name is reserved")]
    ReservedName,
    /// A second field of the same name.
    #[error("another field has this name")]
    Duplicate,
    /// A key of a type that cannot be one.
    #[error("a {role} is int64 or varchar, not {found}")]
    KeyType {
        /// Which key.
        role: &'static str,
        /// Type of the field.
        found: DataType,
    },
    /// A key without a value.
    #[error("a {role} cannot be nullable")]
    KeyNullable {
        /// Which key.
        role: &'static str,
    },
    /// A primary key with a default would not be unique.
    #[error("a primary key cannot have a default")]
    PrimaryKeyDefault,
    /// One field for both.
    #[error("the primary key cannot be the partition key")]
    BothKeys,
    /// Automatic ids for something else than the primary key.
    #[error("only the primary key can be assigned automatically")]
    AutoIdWithoutKey,
    /// A varchar too short for the digits of an id.
    #[error("an automatic varchar key needs a max_bytes of {AUTO_ID_TEXT_BYTES} at least")]
    AutoIdBytes,
    /// A parameter that the type needs.
    #[error("{data_type} needs the parameter {parameter}")]
    Needs {
        /// Name of the parameter.
        parameter: &'static str,
        /// Type of the field.
        data_type: DataType,
    },
    /// A parameter that the type does not have.
    #[error("{data_type} has no parameter {parameter}")]
    Inapplicable {
        /// Name of the parameter.
        parameter: &'static str,
        /// Type of the field.
        data_type: DataType,
    },
    /// A parameter out of range.
    #[error("{parameter} is {found}, {least} to {most} are possible")]
    Range {
        /// Type of the field.
        data_type: DataType,
        /// Name of the parameter.
        parameter: &'static str,
        /// Value found.
        found: u32,
        /// Least value.
        least: u32,
        /// Largest value.
        most: u32,
    },
    /// Bits are stored eight to a byte.
    #[error("dim is {dim}, a binary vector needs a multiple of 8")]
    BinaryDim {
        /// Dimension found.
        dim: u32,
    },
    /// Every row has every vector.
    #[error("a vector field cannot be nullable")]
    NullableVector,
    /// An element type that arrays do not have.
    #[error("an array cannot have elements of {element}")]
    ElementType {
        /// The type.
        element: ScalarType,
    },
    /// A type without defaults.
    #[error("a field of {data_type} cannot have a default")]
    NoDefault {
        /// Type of the field.
        data_type: DataType,
    },
    /// A default of another type.
    #[error("the default is no {data_type}")]
    DefaultType {
        /// Type of the field.
        data_type: DataType,
    },
    /// A default that the field itself would refuse.
    #[error("the default does not fit: {0}")]
    Default(ValueFault),
    /// A field that earlier rows could not have.
    #[error("a field added to a collection has to be nullable or have a default")]
    AddedRequired,
    /// A kind of field that can only stand in a new schema.
    #[error("a {what} cannot be added to a collection")]
    Added {
        /// What it is.
        what: &'static str,
    },
}

/// Why a schema is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A field that breaks a rule.
    #[error("field `{field}`: {rule}")]
    Field {
        /// Name of the field.
        field: String,
        /// The rule.
        rule: FieldRule,
    },
    /// No primary key.
    #[error("the schema has no primary key")]
    NoPrimaryKey,
    /// Two fields for one role.
    #[error("`{first}` and `{second}` are both the {role}; there can be one")]
    TwoKeys {
        /// Which key.
        role: &'static str,
        /// One field.
        first: String,
        /// The other.
        second: String,
    },
    /// No vector.
    #[error("the schema has no vector field")]
    NoVector,
    /// Too many fields.
    #[error("the schema has {found} fields, {MAX_FIELDS} are possible")]
    TooManyFields {
        /// Number of fields.
        found: usize,
    },
    /// Too many vector fields.
    #[error("the schema has {found} vector fields, {MAX_VECTOR_FIELDS} are possible")]
    TooManyVectors {
        /// Number of vector fields.
        found: usize,
    },
    /// A dynamic field where there is one.
    #[error("the schema has a dynamic field already")]
    AlreadyDynamic,
    /// A field that was not declared.
    #[error("the schema declares no field `{field}`")]
    UnknownField {
        /// The name.
        field: String,
    },
    /// Ids of a saved schema that do not ascend.
    #[error("field `{field}` has the id {found}, {least} to {below} (exclusive) was expected")]
    Id {
        /// Name of the field.
        field: String,
        /// Its id.
        found: u32,
        /// Least id it could have.
        least: u32,
        /// Id of the next field to be added.
        below: u32,
    },
}

impl SchemaError {
    /// What to do about it: another schema.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::FixInput
    }
}

/// Why a batch is refused. Nothing of it was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// No rows.
    #[error("the batch has no rows")]
    Empty,
    /// A column for no field.
    #[error("the schema has no field `{field}`")]
    UnknownField {
        /// Name of the column.
        field: String,
    },
    /// Two columns for one field.
    #[error("field `{field}` is given twice")]
    DuplicateField {
        /// Name of the field.
        field: String,
    },
    /// No column for a field that needs one.
    #[error("field `{field}` is missing; it is not nullable and has no default")]
    MissingField {
        /// Name of the field.
        field: String,
    },
    /// A key where keys are assigned.
    #[error("field `{field}` is assigned automatically and cannot be given")]
    AssignedKey {
        /// Name of the field.
        field: String,
    },
    /// A column of another length.
    #[error("field `{field}` has {found} {entries}, the batch has {expected} rows")]
    Length {
        /// Name of the field.
        field: String,
        /// What was counted.
        entries: &'static str,
        /// Rows of the batch.
        expected: usize,
        /// Entries found.
        found: usize,
    },
    /// A column of another type.
    #[error("field `{field}` is of type {expected}, {found} was given")]
    Type {
        /// Name of the field.
        field: String,
        /// Type of the field.
        expected: DataType,
        /// Type of the column.
        found: DataType,
    },
    /// Vectors of another dimension.
    #[error("field `{field}` has dimension {expected}, vectors of {found} were given")]
    Dimension {
        /// Name of the field.
        field: String,
        /// Dimension of the field.
        expected: u32,
        /// Dimension of the column.
        found: usize,
    },
    /// No value in a row that needs one.
    #[error("field `{field}`, row {row}: null, and the field is not nullable and has no default")]
    Null {
        /// Name of the field.
        field: String,
        /// Row of the batch, from 0.
        row: usize,
    },
    /// A value that does not fit.
    #[error("field `{field}`, row {row}: {fault}")]
    Value {
        /// Name of the field.
        field: String,
        /// Row of the batch, from 0.
        row: usize,
        /// What is wrong.
        fault: ValueFault,
    },
    /// A row that cannot be stored.
    #[error("row {row}: {error}")]
    Row {
        /// Row of the batch, from 0.
        row: usize,
        /// What is wrong.
        error: RowError,
    },
}

impl BatchError {
    /// What to do about it: another batch.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::FixInput
    }
}
