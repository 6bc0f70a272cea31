//! The keys of one value: none of null, one of a scalar, one for each element of an array.

use super::key::key_of;
use crate::value::ValueRef;

/// See the module's description. Buffers are used again.
#[derive(Debug, Default)]
pub(super) struct ValueKeys {
    pub(super) is_null: bool,
    keys: Vec<u8>,
    ends: Vec<usize>,
    one: Vec<u8>,
}

impl ValueKeys {
    /// Takes the keys of `value`, in place of those before.
    ///
    /// # Panics
    /// For JSON and vectors, which have none.
    pub(super) fn set(&mut self, value: ValueRef<'_>) {
        self.keys.clear();
        self.ends.clear();
        self.is_null = value.is_null();
        match value {
            ValueRef::Null => {}
            ValueRef::Array(array) => array.iter().for_each(|element| self.push(element)),
            scalar => self.push(scalar),
        }
    }

    fn push(&mut self, scalar: ValueRef<'_>) {
        assert!(key_of(scalar, &mut self.one), "columns hold scalars and arrays of them");
        self.keys.extend(&self.one);
        self.ends.push(self.keys.len());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.keys[start..end])
    }
}
