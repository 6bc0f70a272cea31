//! Elements of arrays as values: put together, and read one by one.

use super::array::{Array, ArrayError, ArrayRef};
use super::single::ValueRef;
use super::types::ScalarType;

impl Array {
    /// Collects `values`. Integers of another width are taken where they fit.
    ///
    /// # Errors
    /// [`ArrayError::Element`] with the first value that is of another type, null, or does not
    /// fit; [`ArrayError::TooLarge`] where texts exceed 4 GiB.
    pub fn collect<'v>(
        element: ScalarType,
        values: impl IntoIterator<Item = ValueRef<'v>>,
    ) -> Result<Self, ArrayError> {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for (at, value) in values.into_iter().enumerate() {
            let value = value.with_type(element).ok_or(ArrayError::Element { at, element })?;
            push_scalar(value, &mut bytes);
            if element == ScalarType::VarChar {
                ends.push(u32::try_from(bytes.len()).map_err(|_| ArrayError::TooLarge)?);
            }
        }
        if element == ScalarType::VarChar {
            let count = u32::try_from(ends.len()).map_err(|_| ArrayError::TooLarge)?;
            let head = [count].into_iter().chain(ends).flat_map(u32::to_le_bytes);
            bytes = head.chain(bytes).collect();
        }
        Ok(Self { element, bytes })
    }
}

impl<'a> ArrayRef<'a> {
    /// Element `i`.
    ///
    /// # Panics
    /// Where `i` is not below [`len`](Self::len).
    pub fn get(self, i: usize) -> ValueRef<'a> {
        let bytes = match self.element.width() {
            Some(width) => &self.bytes[i * width..(i + 1) * width],
            None => self.text(i, self.len()).expect("checked when the array was made"),
        };
        read_scalar(self.element, bytes).expect("checked when the array was made")
    }

    /// All elements in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = ValueRef<'a>> {
        (0..self.len()).map(move |i| self.get(i))
    }
}

/// Appends the bytes of a scalar; a text without its length.
pub(super) fn push_scalar(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Bool(v) => out.push(v.into()),
        ValueRef::Int8(v) => out.extend(v.to_le_bytes()),
        ValueRef::Int16(v) => out.extend(v.to_le_bytes()),
        ValueRef::Int32(v) => out.extend(v.to_le_bytes()),
        ValueRef::Int64(v) | ValueRef::Timestamptz(v) => out.extend(v.to_le_bytes()),
        ValueRef::Float(v) => out.extend(v.to_le_bytes()),
        ValueRef::Double(v) => out.extend(v.to_le_bytes()),
        ValueRef::VarChar(v) => out.extend(v.as_bytes()),
        ValueRef::Null | ValueRef::Json(_) | ValueRef::Array(_) | ValueRef::Vector(_) => {
            unreachable!("the caller has a scalar")
        }
    }
}

/// The scalar in `bytes`; `None` where their number or content is not the type's.
#[inline]
pub(super) fn read_scalar(scalar: ScalarType, bytes: &[u8]) -> Option<ValueRef<'_>> {
    Some(match scalar {
        ScalarType::Bool => match bytes {
            [0] => ValueRef::Bool(false),
            [1] => ValueRef::Bool(true),
            _ => return None,
        },
        ScalarType::Int8 => ValueRef::Int8(i8::from_le_bytes(bytes.try_into().ok()?)),
        ScalarType::Int16 => ValueRef::Int16(i16::from_le_bytes(bytes.try_into().ok()?)),
        ScalarType::Int32 => ValueRef::Int32(i32::from_le_bytes(bytes.try_into().ok()?)),
        ScalarType::Int64 => ValueRef::Int64(i64::from_le_bytes(bytes.try_into().ok()?)),
        ScalarType::Float => ValueRef::Float(f32::from_le_bytes(bytes.try_into().ok()?)),
        ScalarType::Double => ValueRef::Double(f64::from_le_bytes(bytes.try_into().ok()?)),
        ScalarType::Timestamptz => {
            ValueRef::Timestamptz(i64::from_le_bytes(bytes.try_into().ok()?))
        }
        ScalarType::VarChar => ValueRef::VarChar(std::str::from_utf8(bytes).ok()?),
    })
}
