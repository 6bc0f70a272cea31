//! Rows as bytes.
//!
//! A row is a header, a bitmap of nulls, one slot per column, and the variable parts: a
//! fixed-width scalar stands in its slot, everything else behind the slots, its slot telling
//! where it ends. So the place of a slot follows from the number of columns alone, and reading
//! one column touches nothing of the others. `docs/database-format.md` has the byte tables.
//!
//! Columns are only ever appended to a layout, so a row written under an older schema is a row
//! with fewer columns; the missing ones read as the value that the layout names for them. A row
//! carries no checksum: the log and the row store have theirs. Decoding accepts any bytes.

use super::array::ArrayRef;
use super::constants::{MAX_ROW_BYTES, MAX_ROW_COLUMNS, ROW_FORMAT, row_header};
use super::elements::{push_scalar, read_scalar};
use super::single::{Value, ValueRef};
use super::types::{DataType, ScalarType};
use crate::ids::ErrorClass;

/// Bytes of the slot of a variable part: where it ends, counted from the end of the slots.
const END_BYTES: usize = 4;

/// A column of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowColumn {
    /// Type of its values.
    pub data_type: DataType,
    /// What a row written before the column existed holds in it.
    pub absent: Value,
}

/// Why a row cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// A row longer than [`MAX_ROW_BYTES`].
    #[error("the row takes {bytes} bytes, {MAX_ROW_BYTES} are possible")]
    TooLarge {
        /// Bytes it would take; a lower bound.
        bytes: usize,
    },
    /// Fewer bytes than the row's own header asks for.
    #[error("a row of {found} bytes is cut off, {expected} are needed")]
    Short {
        /// Bytes needed at least.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
    /// Another format of rows.
    #[error("row format {found} is unknown, this version reads {ROW_FORMAT}")]
    Format {
        /// Format found.
        found: u16,
    },
    /// Columns that the layout does not know.
    #[error(
        "the row has {found} columns of schema version {found_version}, the schema at hand \
         (version {known_version}) has {known}"
    )]
    Newer {
        /// Columns of the row.
        found: usize,
        /// Schema version of the row.
        found_version: u32,
        /// Columns of the layout.
        known: usize,
        /// Schema version of the layout.
        known_version: u32,
    },
    /// Bytes that are no value of the column's type.
    #[error("column {column} of the row holds no {data_type}")]
    Value {
        /// Position of the column.
        column: usize,
        /// Its type.
        data_type: DataType,
    },
    /// Bytes behind the last value, or bits behind the last column.
    #[error("the row holds something behind its last column")]
    Surplus,
}

impl RowError {
    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TooLarge { .. } | Self::Format { .. } | Self::Newer { .. } => {
                ErrorClass::FixInput
            }
            Self::Short { .. } | Self::Value { .. } | Self::Surplus => ErrorClass::Stop,
        }
    }
}

/// Where the columns of a row stand.
#[derive(Clone, Debug, PartialEq)]
pub struct RowLayout {
    schema_version: u32,
    columns: Vec<RowColumn>,
    /// Where the slot of each column begins, counted from the first; at last their whole width.
    slots: Vec<usize>,
    /// For each column, the nearest one before it whose values stand behind the slots.
    previous_variable: Vec<Option<usize>>,
}

impl RowLayout {
    /// A layout of these columns.
    ///
    /// # Panics
    /// Where there are more than [`MAX_ROW_COLUMNS`].
    pub fn new(schema_version: u32, columns: Vec<RowColumn>) -> Self {
        assert!(columns.len() <= MAX_ROW_COLUMNS, "a schema bounds its fields");
        let mut slots = Vec::with_capacity(columns.len() + 1);
        slots.push(0);
        let mut previous_variable = Vec::with_capacity(columns.len());
        let mut variable = None;
        let mut end = 0;
        for (i, column) in columns.iter().enumerate() {
            let width = column.data_type.fixed_width();
            end += width.unwrap_or(END_BYTES);
            slots.push(end);
            previous_variable.push(variable);
            if width.is_none() {
                variable = Some(i);
            }
        }
        Self { schema_version, columns, slots, previous_variable }
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Type of a column.
    ///
    /// # Panics
    /// Where there is no such column.
    pub fn data_type(&self, column: usize) -> DataType {
        self.columns[column].data_type
    }

    /// Appends a row to `out`: one value per column, in order.
    ///
    /// # Errors
    /// [`RowError::TooLarge`]; then nothing is appended.
    ///
    /// # Panics
    /// Where the number or a type of the values is not the layout's.
    pub fn encode<'v>(
        &self,
        values: impl IntoIterator<Item = ValueRef<'v>>,
        out: &mut Vec<u8>,
    ) -> Result<(), RowError> {
        let start = out.len();
        let count = u16::try_from(self.columns.len()).expect("checked by `new`");
        out.extend(ROW_FORMAT.to_le_bytes());
        out.extend(count.to_le_bytes());
        out.extend(self.schema_version.to_le_bytes());
        let bitmap = out.len();
        let slots = bitmap + bitmap_bytes(self.columns.len());
        let variable = slots + self.slots[self.columns.len()];
        out.resize(variable, 0);
        let mut encoded = 0;
        for (i, value) in values.into_iter().enumerate() {
            let column = self.columns.get(i).expect("no more values than columns");
            let slot = slots + self.slots[i]..slots + self.slots[i + 1];
            if value.is_null() {
                out[bitmap + i / 8] |= 1 << (i % 8);
            } else if column.data_type.fixed_width().is_some() {
                check_type(column.data_type, value);
                let end = out.len();
                push_scalar(value, out);
                // Written behind and moved to its slot, so that one function knows the bytes.
                out.copy_within(end.., slot.start);
                out.truncate(end);
            } else {
                check_type(column.data_type, value);
                push_variable(value, out);
                if out.len() - start > MAX_ROW_BYTES {
                    let bytes = out.len() - start;
                    out.truncate(start);
                    return Err(RowError::TooLarge { bytes });
                }
            }
            if column.data_type.fixed_width().is_none() {
                let end = u32::try_from(out.len() - variable).expect("below MAX_ROW_BYTES");
                out[slot].copy_from_slice(&end.to_le_bytes());
            }
            encoded += 1;
        }
        assert_eq!(encoded, self.columns.len(), "one value per column");
        Ok(())
    }

    /// Views `bytes` as a row. Checks the header and that all slots are there; a value is
    /// checked when it is read, or by [`RowView::verify`].
    ///
    /// # Errors
    /// [`RowError`] where the bytes are too few, of another format, or of a newer schema.
    #[inline]
    pub fn open<'a>(&'a self, bytes: &'a [u8]) -> Result<RowView<'a>, RowError> {
        let short = |expected| RowError::Short { expected, found: bytes.len() };
        let header = bytes.first_chunk::<{ row_header::BYTES }>();
        let &[f0, f1, c0, c1, version @ ..] = header.ok_or(short(row_header::BYTES))?;
        let format = u16::from_le_bytes([f0, f1]);
        if format != ROW_FORMAT {
            return Err(RowError::Format { found: format });
        }
        let stored = usize::from(u16::from_le_bytes([c0, c1]));
        let version = u32::from_le_bytes(version);
        if stored > self.columns.len() {
            return Err(RowError::Newer {
                found: stored,
                found_version: version,
                known: self.columns.len(),
                known_version: self.schema_version,
            });
        }
        let slots = row_header::BYTES + bitmap_bytes(stored);
        let variable = slots + self.slots[stored];
        if bytes.len() < variable {
            return Err(short(variable));
        }
        Ok(RowView {
            layout: self,
            stored,
            schema_version: version,
            nulls: &bytes[row_header::BYTES..slots],
            slots: &bytes[slots..variable],
            variable: &bytes[variable..],
        })
    }
}

fn bitmap_bytes(columns: usize) -> usize {
    columns.div_ceil(8)
}

/// A value of another type than its column's is a mistake of the program: the schema checks.
fn check_type(data_type: DataType, value: ValueRef<'_>) {
    let fits = match (data_type, value) {
        (DataType::Scalar(scalar), value) => value.scalar_type() == Some(scalar),
        (DataType::Array(element), ValueRef::Array(array)) => array.element() == element,
        (DataType::Json, ValueRef::Json(_)) | (DataType::Vector(_), ValueRef::Vector(_)) => true,
        _ => false,
    };
    assert!(fits, "a column of {data_type} was given {value:?}");
}

fn push_variable(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Json(text) => out.extend(text.as_bytes()),
        ValueRef::Array(array) => out.extend(array.bytes()),
        ValueRef::Vector(bytes) => out.extend(bytes),
        scalar => push_scalar(scalar, out),
    }
}

/// A row that is being read.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    layout: &'a RowLayout,
    stored: usize,
    schema_version: u32,
    nulls: &'a [u8],
    slots: &'a [u8],
    variable: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Version of the schema that the row was written under.
    pub fn schema_version(&self) -> u32 {
        self.schema_version
    }

    /// The value of a column; what the layout names for it, where the row is older than it.
    ///
    /// # Errors
    /// [`RowError::Value`] where its bytes are no such value.
    ///
    /// # Panics
    /// Where the layout has no such column.
    #[inline]
    pub fn get(&self, column: usize) -> Result<ValueRef<'a>, RowError> {
        let RowColumn { data_type, absent } = &self.layout.columns[column];
        if column >= self.stored {
            return Ok(absent.as_ref());
        }
        if self.nulls[column / 8] & (1 << (column % 8)) != 0 {
            return Ok(ValueRef::Null);
        }
        let value = match *data_type {
            DataType::Scalar(scalar) if scalar != ScalarType::VarChar => {
                read_scalar(scalar, self.slot(column))
            }
            _ => self.variable_bytes(column).and_then(|bytes| read_variable(*data_type, bytes)),
        };
        value.ok_or(RowError::Value { column, data_type: *data_type })
    }

    /// Reads every column, and checks that nothing stands behind the last.
    ///
    /// # Errors
    /// The first [`RowError`].
    pub fn verify(&self) -> Result<(), RowError> {
        for column in 0..self.stored {
            let is_null = self.get(column)?.is_null();
            let data_type = self.layout.data_type(column);
            // Also the part of a null has an end, which has to be where it begins.
            let is_variable = data_type.fixed_width().is_none();
            if is_null && is_variable && self.variable_bytes(column) != Some(&[]) {
                return Err(RowError::Value { column, data_type });
            }
        }
        let surplus_bits = (self.stored..self.nulls.len() * 8)
            .any(|bit| self.nulls[bit / 8] & (1 << (bit % 8)) != 0);
        let last =
            (0..self.stored).rev().find(|&i| self.layout.data_type(i).fixed_width().is_none());
        let end = last.map_or(0, |column| self.end(column));
        if surplus_bits || end != self.variable.len() {
            return Err(RowError::Surplus);
        }
        Ok(())
    }

    fn slot(&self, column: usize) -> &'a [u8] {
        &self.slots[self.layout.slots[column]..self.layout.slots[column + 1]]
    }

    fn end(&self, column: usize) -> usize {
        let slot = self.slot(column).try_into().expect("the slot of a variable part");
        u32::from_le_bytes(slot) as usize
    }

    fn variable_bytes(&self, column: usize) -> Option<&'a [u8]> {
        let start = self.layout.previous_variable[column].map_or(0, |before| self.end(before));
        self.variable.get(start..self.end(column))
    }
}

fn read_variable(data_type: DataType, bytes: &[u8]) -> Option<ValueRef<'_>> {
    match data_type {
        DataType::Scalar(scalar) => read_scalar(scalar, bytes),
        DataType::Json => std::str::from_utf8(bytes).ok().map(ValueRef::Json),
        DataType::Array(element) => ArrayRef::decode(element, bytes).ok().map(ValueRef::Array),
        DataType::Vector(_) => Some(ValueRef::Vector(bytes)),
    }
}
