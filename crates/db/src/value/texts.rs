//! Many byte strings or texts behind each other in one allocation.

/// Byte strings, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blobs {
    bytes: Vec<u8>,
    /// Where each one ends; it begins where the one before ends.
    ends: Vec<usize>,
}

impl Blobs {
    /// Number of byte strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends one.
    pub fn push(&mut self, blob: &[u8]) {
        self.bytes.extend_from_slice(blob);
        self.ends.push(self.bytes.len());
    }

    /// Byte string `i`.
    ///
    /// # Panics
    /// Where `i` is not below [`len`](Self::len).
    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }
}

impl<B: AsRef<[u8]>> FromIterator<B> for Blobs {
    fn from_iter<I: IntoIterator<Item = B>>(blobs: I) -> Self {
        let mut all = Self::default();
        blobs.into_iter().for_each(|blob| all.push(blob.as_ref()));
        all
    }
}

/// Texts, one after the other. Invariant: each is UTF-8 by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(Blobs);

impl Texts {
    /// Number of texts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends one.
    pub fn push(&mut self, text: &str) {
        self.0.push(text.as_bytes());
    }

    /// Appends bytes that have to be text.
    ///
    /// # Errors
    /// [`std::str::Utf8Error`] where they are not UTF-8; nothing is appended then.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), std::str::Utf8Error> {
        self.push(std::str::from_utf8(bytes)?);
        Ok(())
    }

    /// Text `i`.
    ///
    /// # Panics
    /// Where `i` is not below [`len`](Self::len).
    pub fn get(&self, i: usize) -> &str {
        std::str::from_utf8(self.0.get(i)).expect("only UTF-8 was pushed")
    }
}

impl<S: AsRef<str>> FromIterator<S> for Texts {
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Self {
        let mut all = Self::default();
        texts.into_iter().for_each(|text| all.push(text.as_ref()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_one_by_one_and_bytes_that_are_none_are_refused() {
        let mut texts: Texts = ["", "ä", "b", ""].into_iter().collect();
        assert!(texts.push_bytes(&[0xc3]).is_err());
        texts.push_bytes("ö".as_bytes()).unwrap();
        let all: Vec<&str> = (0..texts.len()).map(|i| texts.get(i)).collect();
        assert_eq!(all, ["", "ä", "b", "", "ö"]);
    }
}
