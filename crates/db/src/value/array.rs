//! Arrays of scalars, held in the bytes that they have in a row.
//!
//! Elements of a fixed width stand one after the other. Texts: their number as u32, where each
//! ends as u32 (counted from the first text's first byte), then the texts. There are no null
//! elements. Invariant of both types: the bytes are valid, so reading an element cannot fail.

use super::types::ScalarType;

/// Bytes of the number of texts, and of each end.
const LENGTH_BYTES: usize = 4;

/// Why elements or bytes make no array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// An element of another type, or an integer out of the type's range.
    #[error("element {at} is no {element}")]
    Element {
        /// Position in the array.
        at: usize,
        /// Type of the array's elements.
        element: ScalarType,
    },
    /// More than 4 GiB.
    #[error("the texts of an array exceed 4 GiB")]
    TooLarge,
    /// Bytes that are no array of this type.
    #[error("{bytes} bytes are no array of {element}")]
    Bytes {
        /// Number of bytes.
        bytes: usize,
        /// Type of the array's elements.
        element: ScalarType,
    },
}

/// An array, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    pub(super) element: ScalarType,
    pub(super) bytes: Vec<u8>,
}

impl Array {
    /// The array, borrowed.
    pub fn as_ref(&self) -> ArrayRef<'_> {
        ArrayRef { element: self.element, bytes: &self.bytes }
    }
}

/// An array, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayRef<'a> {
    pub(super) element: ScalarType,
    pub(super) bytes: &'a [u8],
}

impl<'a> ArrayRef<'a> {
    /// Views `bytes` as an array, after checking every element.
    ///
    /// # Errors
    /// [`ArrayError::Bytes`] where they are none.
    pub fn decode(element: ScalarType, bytes: &'a [u8]) -> Result<Self, ArrayError> {
        let array = Self { element, bytes };
        let valid = match element.width() {
            Some(width) => {
                bytes.len().is_multiple_of(width)
                    && (element != ScalarType::Bool || bytes.iter().all(|&b| b <= 1))
            }
            None => array.texts_are_valid(),
        };
        valid.then_some(array).ok_or(ArrayError::Bytes { bytes: bytes.len(), element })
    }

    /// Type of the elements.
    pub fn element(self) -> ScalarType {
        self.element
    }

    /// Number of elements.
    pub fn len(self) -> usize {
        match self.element.width() {
            Some(width) => self.bytes.len() / width,
            None => self.text_count().expect("checked when the array was made"),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The bytes, as they stand in a row.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// An owned copy.
    pub fn to_array(self) -> Array {
        Array { element: self.element, bytes: self.bytes.into() }
    }

    fn word(self, at: usize) -> Option<usize> {
        let start = at.checked_mul(LENGTH_BYTES)?;
        let bytes = self.bytes.get(start..start.checked_add(LENGTH_BYTES)?)?;
        usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
    }

    fn text_count(self) -> Option<usize> {
        self.word(0)
    }

    pub(super) fn text(self, i: usize, count: usize) -> Option<&'a [u8]> {
        let texts = self.bytes.get(count.checked_add(1)?.checked_mul(LENGTH_BYTES)?..)?;
        let start = if i == 0 { 0 } else { self.word(i)? };
        texts.get(start..self.word(i + 1)?)
    }

    fn texts_are_valid(self) -> bool {
        let Some(count) = self.text_count() else { return false };
        // The ends have to be there before they are walked, so `count` costs nothing.
        let head = count.checked_add(1).and_then(|words| words.checked_mul(LENGTH_BYTES));
        let Some(texts) = head.and_then(|head| self.bytes.len().checked_sub(head)) else {
            return false;
        };
        let last = if count == 0 { Some(0) } else { self.word(count) };
        last == Some(texts)
            && (0..count)
                .all(|i| self.text(i, count).is_some_and(|t| std::str::from_utf8(t).is_ok()))
    }
}
