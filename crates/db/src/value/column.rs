//! Columns: the values of one field for all rows of a request.
//!
//! A column has one entry per row, also for rows without a value: there any placeholder stands,
//! which nobody looks at. Invariants kept by the constructors: texts are UTF-8, arrays hold
//! elements of their type, dense vectors are whole.

use super::array::{Array, ArrayRef};
use super::single::ValueRef;
use super::texts::{Blobs, Texts};
use super::types::{DataType, ScalarType, VectorKind};

/// Arrays of one element type, one per row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrays {
    element: ScalarType,
    arrays: Blobs,
}

impl Arrays {
    /// No arrays yet.
    pub fn new(element: ScalarType) -> Self {
        Self { element, arrays: Blobs::default() }
    }

    /// Appends one.
    ///
    /// # Panics
    /// Where its elements are of another type.
    pub fn push(&mut self, array: &Array) {
        let array = array.as_ref();
        assert_eq!(array.element(), self.element, "a column holds arrays of one element type");
        self.arrays.push(array.bytes());
    }

    /// The same arrays in the rows that are marked, and empty ones in the others. Rows behind the
    /// last array get empty ones too.
    #[must_use]
    pub fn spread(&self, marked: &[bool]) -> Self {
        let empty = Array::collect(self.element, []).expect("no element is of a wrong type");
        let (mut all, mut at) = (Self::new(self.element), 0);
        for &marked in marked {
            if marked && at < self.arrays.len() {
                all.arrays.push(self.arrays.get(at));
                at += 1;
            } else {
                all.push(&empty);
            }
        }
        all
    }

    fn get(&self, row: usize) -> ArrayRef<'_> {
        ArrayRef::decode(self.element, self.arrays.get(row)).expect("only arrays were pushed")
    }
}

/// Bytes that are no whole number of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RaggedVectors {
    /// A vector would have no bytes, or sparse vectors were given, which have no dimension.
    #[error("a dense {kind} cannot have {dim} dimensions")]
    Dimension {
        /// Kind of vector.
        kind: VectorKind,
        /// Dimension asked for.
        dim: usize,
    },
    /// The length does not fit.
    #[error("{bytes} bytes are no whole number of {dim}-dimensional vectors of type {kind}")]
    Length {
        /// Bytes given.
        bytes: usize,
        /// Kind of vector.
        kind: VectorKind,
        /// Dimension asked for.
        dim: usize,
    },
}

/// Vectors of one dimension, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseVectors {
    kind: VectorKind,
    dim: usize,
    row_bytes: usize,
    bytes: Vec<u8>,
}

impl DenseVectors {
    /// Takes `bytes` as vectors of `dim` components.
    ///
    /// # Errors
    /// [`RaggedVectors`] where the dimension gives a vector no bytes, is no multiple of 8 for
    /// binary vectors, or the length does not fit; also for sparse vectors.
    pub fn new(kind: VectorKind, dim: usize, bytes: Vec<u8>) -> Result<Self, RaggedVectors> {
        let whole = dim <= usize::MAX / 8 && (kind != VectorKind::Binary || dim.is_multiple_of(8));
        let row_bytes = Some(dim).filter(|_| whole).and_then(|dim| kind.row_bytes(dim));
        let row_bytes =
            row_bytes.filter(|&n| n > 0).ok_or(RaggedVectors::Dimension { kind, dim })?;
        if !bytes.len().is_multiple_of(row_bytes) {
            return Err(RaggedVectors::Length { bytes: bytes.len(), kind, dim });
        }
        Ok(Self { kind, dim, row_bytes, bytes })
    }

    /// How components are stored.
    pub fn kind(&self) -> VectorKind {
        self.kind
    }

    /// Components of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All vectors, row after row.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn get(&self, row: usize) -> &[u8] {
        &self.bytes[row * self.row_bytes..(row + 1) * self.row_bytes]
    }
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValues {
    /// True or false.
    Bool(Vec<bool>),
    /// Signed integers of 8 bits.
    Int8(Vec<i8>),
    /// Signed integers of 16 bits.
    Int16(Vec<i16>),
    /// Signed integers of 32 bits.
    Int32(Vec<i32>),
    /// Signed integers of 64 bits.
    Int64(Vec<i64>),
    /// IEEE 754 single precision.
    Float(Vec<f32>),
    /// IEEE 754 double precision.
    Double(Vec<f64>),
    /// Microseconds since 1970-01-01T00:00:00 UTC.
    Timestamptz(Vec<i64>),
    /// UTF-8 texts.
    VarChar(Texts),
    /// Texts that should be JSON; whether they are is checked against the schema.
    Json(Texts),
    /// Arrays of scalars.
    Array(Arrays),
    /// Vectors of one dimension.
    Dense(DenseVectors),
    /// Sparse vectors; whether they are is checked against the schema.
    Sparse(Blobs),
}

impl ColumnValues {
    /// Values of one type; where there is none, any placeholder.
    ///
    /// # Panics
    /// Where a value is of another type, or a vector has no `dim` components.
    pub fn collect(data_type: DataType, dim: usize, values: &[ValueRef<'_>]) -> Self {
        macro_rules! all {
            ($kind:ident) => {
                Self::$kind(each(values, |value| match value {
                    ValueRef::$kind(value) => Some(value),
                    _ => None,
                }))
            };
        }
        match data_type {
            DataType::Scalar(ScalarType::Bool) => all!(Bool),
            DataType::Scalar(ScalarType::Int8) => all!(Int8),
            DataType::Scalar(ScalarType::Int16) => all!(Int16),
            DataType::Scalar(ScalarType::Int32) => all!(Int32),
            DataType::Scalar(ScalarType::Int64) => all!(Int64),
            DataType::Scalar(ScalarType::Float) => all!(Float),
            DataType::Scalar(ScalarType::Double) => all!(Double),
            DataType::Scalar(ScalarType::Timestamptz) => all!(Timestamptz),
            DataType::Scalar(ScalarType::VarChar) => Self::VarChar(texts(values)),
            DataType::Json => Self::Json(texts(values)),
            DataType::Array(element) => {
                let empty = Array::collect(element, []).expect("no element is of a wrong type");
                let mut all = Arrays::new(element);
                for value in values {
                    match value {
                        ValueRef::Array(array) => all.push(&array.to_array()),
                        value => {
                            assert!(value.is_null(), "an array is needed");
                            all.push(&empty);
                        }
                    }
                }
                Self::Array(all)
            }
            DataType::Vector(VectorKind::Sparse) => {
                let mut all = Blobs::default();
                values.iter().for_each(|value| all.push(vector(*value)));
                Self::Sparse(all)
            }
            DataType::Vector(kind) => {
                let row_bytes = kind.row_bytes(dim).expect("a dense vector has a length");
                let mut bytes = Vec::with_capacity(values.len() * row_bytes);
                for (row, value) in values.iter().enumerate() {
                    bytes.extend_from_slice(vector(*value));
                    bytes.resize((row + 1) * row_bytes, 0);
                }
                Self::Dense(DenseVectors::new(kind, dim, bytes).expect("whole vectors"))
            }
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Bool(v) => v.len(),
            Self::Int8(v) => v.len(),
            Self::Int16(v) => v.len(),
            Self::Int32(v) => v.len(),
            Self::Int64(v) | Self::Timestamptz(v) => v.len(),
            Self::Float(v) => v.len(),
            Self::Double(v) => v.len(),
            Self::VarChar(v) | Self::Json(v) => v.len(),
            Self::Array(v) => v.arrays.len(),
            Self::Dense(v) => v.bytes.len() / v.row_bytes,
            Self::Sparse(v) => v.len(),
        }
    }

    /// Type of the values.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Bool(_) => DataType::Scalar(ScalarType::Bool),
            Self::Int8(_) => DataType::Scalar(ScalarType::Int8),
            Self::Int16(_) => DataType::Scalar(ScalarType::Int16),
            Self::Int32(_) => DataType::Scalar(ScalarType::Int32),
            Self::Int64(_) => DataType::Scalar(ScalarType::Int64),
            Self::Float(_) => DataType::Scalar(ScalarType::Float),
            Self::Double(_) => DataType::Scalar(ScalarType::Double),
            Self::Timestamptz(_) => DataType::Scalar(ScalarType::Timestamptz),
            Self::VarChar(_) => DataType::Scalar(ScalarType::VarChar),
            Self::Json(_) => DataType::Json,
            Self::Array(v) => DataType::Array(v.element),
            Self::Dense(v) => DataType::Vector(v.kind),
            Self::Sparse(_) => DataType::Vector(VectorKind::Sparse),
        }
    }

    /// The value of a row.
    ///
    /// # Panics
    /// Where `row` is not below [`rows`](Self::rows).
    pub fn get(&self, row: usize) -> ValueRef<'_> {
        match self {
            Self::Bool(v) => ValueRef::Bool(v[row]),
            Self::Int8(v) => ValueRef::Int8(v[row]),
            Self::Int16(v) => ValueRef::Int16(v[row]),
            Self::Int32(v) => ValueRef::Int32(v[row]),
            Self::Int64(v) => ValueRef::Int64(v[row]),
            Self::Float(v) => ValueRef::Float(v[row]),
            Self::Double(v) => ValueRef::Double(v[row]),
            Self::Timestamptz(v) => ValueRef::Timestamptz(v[row]),
            Self::VarChar(v) => ValueRef::VarChar(v.get(row)),
            Self::Json(v) => ValueRef::Json(v.get(row)),
            Self::Array(v) => ValueRef::Array(v.get(row)),
            Self::Dense(v) => ValueRef::Vector(v.get(row)),
            Self::Sparse(v) => ValueRef::Vector(v.get(row)),
        }
    }
}

/// One value for each; the type's own where there is none.
fn each<'v, T: Default>(values: &[ValueRef<'v>], of: impl Fn(ValueRef<'v>) -> Option<T>) -> Vec<T> {
    let value = |value: &ValueRef<'v>| {
        let found = of(*value);
        assert!(found.is_some() || value.is_null(), "a value of the column's type is needed");
        found.unwrap_or_default()
    };
    values.iter().map(value).collect()
}

fn texts(values: &[ValueRef<'_>]) -> Texts {
    let text = |value: &ValueRef<'_>| match *value {
        ValueRef::VarChar(text) | ValueRef::Json(text) => text.to_owned(),
        value => {
            assert!(value.is_null(), "a text is needed");
            String::new()
        }
    };
    values.iter().map(text).collect()
}

fn vector(value: ValueRef<'_>) -> &[u8] {
    match value {
        ValueRef::Vector(bytes) => bytes,
        value => {
            assert!(value.is_null(), "a vector is needed");
            &[]
        }
    }
}

/// The values of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name of the field.
    pub field: String,
    /// One entry per row.
    pub values: ColumnValues,
    /// Whether each row has a value; `None` where all have.
    pub valid: Option<Vec<bool>>,
}

impl Column {
    /// A column in which every row has a value.
    pub fn new(field: impl Into<String>, values: ColumnValues) -> Self {
        Self { field: field.into(), values, valid: None }
    }

    /// The same column, with a value only in the rows marked so.
    #[must_use]
    pub fn with_validity(mut self, valid: Vec<bool>) -> Self {
        self.valid = Some(valid);
        self
    }

    /// The value of a row, null where it has none.
    ///
    /// # Panics
    /// Where the row is out of range.
    pub fn get(&self, row: usize) -> ValueRef<'_> {
        match &self.valid {
            Some(valid) if !valid[row] => ValueRef::Null,
            _ => self.values.get(row),
        }
    }
}
