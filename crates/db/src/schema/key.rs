//! Primary keys, and their bytes in an ordered store.
//!
//! The bytes sort as the keys do, and no key's bytes begin with those of another, so that a key
//! can be followed by anything else without changing the order. An int64 is 8 bytes, big-endian,
//! its sign bit flipped. A text is its UTF-8 bytes, a zero byte written as 00 FF, and 00 01 at
//! the end; texts sort by their bytes, which is by their code points.

use std::fmt;

/// The type of a primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// Signed integers.
    Int64,
    /// Texts.
    VarChar,
}

/// A primary key, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PrimaryKeyRef<'a> {
    /// A signed integer.
    Int64(i64),
    /// A text.
    VarChar(&'a str),
}

/// A primary key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PrimaryKey {
    /// A signed integer.
    Int64(i64),
    /// A text.
    VarChar(String),
}

/// Bytes that are no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are no primary key of type {wanted:?}")]
pub struct KeyError {
    /// Number of bytes.
    pub bytes: usize,
    /// Type of the key.
    pub wanted: KeyType,
}

const ZERO: u8 = 0;
const ESCAPED: u8 = 0xff;
const END: u8 = 1;
const SIGN: u64 = 1 << 63;

impl PrimaryKeyRef<'_> {
    /// Its type.
    pub fn key_type(self) -> KeyType {
        match self {
            Self::Int64(_) => KeyType::Int64,
            Self::VarChar(_) => KeyType::VarChar,
        }
    }

    /// Appends the key's bytes to `out`: 8 of an integer, of a text its length and 2, and one
    /// more for each zero byte in it.
    pub fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Int64(key) => out.extend((key.cast_unsigned() ^ SIGN).to_be_bytes()),
            Self::VarChar(key) => {
                for &byte in key.as_bytes() {
                    out.push(byte);
                    if byte == ZERO {
                        out.push(ESCAPED);
                    }
                }
                out.extend([ZERO, END]);
            }
        }
    }

    /// How many bytes [`encode`](Self::encode) appends.
    pub fn encoded_bytes(self) -> usize {
        match self {
            Self::Int64(_) => 8,
            Self::VarChar(key) => {
                key.len() + 2 + key.as_bytes().iter().filter(|&&byte| byte == ZERO).count()
            }
        }
    }

    /// The key's bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// An owned copy.
    pub fn to_key(self) -> PrimaryKey {
        match self {
            Self::Int64(key) => PrimaryKey::Int64(key),
            Self::VarChar(key) => PrimaryKey::VarChar(key.into()),
        }
    }
}

impl PrimaryKey {
    /// The key, borrowed.
    pub fn as_ref(&self) -> PrimaryKeyRef<'_> {
        match self {
            Self::Int64(key) => PrimaryKeyRef::Int64(*key),
            Self::VarChar(key) => PrimaryKeyRef::VarChar(key),
        }
    }

    /// The key of these bytes, which hold nothing else.
    ///
    /// # Errors
    /// [`KeyError`] where they are none.
    pub fn decode(wanted: KeyType, bytes: &[u8]) -> Result<Self, KeyError> {
        let key = match wanted {
            KeyType::Int64 => bytes
                .try_into()
                .ok()
                .map(|key| Self::Int64((u64::from_be_bytes(key) ^ SIGN).cast_signed())),
            KeyType::VarChar => decode_text(bytes).map(Self::VarChar),
        };
        key.ok_or(KeyError { bytes: bytes.len(), wanted })
    }
}

fn decode_text(bytes: &[u8]) -> Option<String> {
    let body = bytes.strip_suffix(&[ZERO, END])?;
    let mut text = Vec::with_capacity(body.len());
    let mut rest = body.iter();
    while let Some(&byte) = rest.next() {
        if byte == ZERO && rest.next() != Some(&ESCAPED) {
            return None;
        }
        text.push(byte);
    }
    String::from_utf8(text).ok()
}

impl fmt::Display for PrimaryKeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int64(key) => key.fmt(f),
            Self::VarChar(key) => write!(f, "{key:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> impl Strategy<Value = PrimaryKey> {
        prop_oneof![
            any::<i64>().prop_map(PrimaryKey::Int64),
            "[\u{0}\u{1}a-cäÿ\u{10ffff}]{0,5}".prop_map(PrimaryKey::VarChar),
        ]
    }

    #[test]
    fn golden_keys() {
        let bytes = |key: PrimaryKeyRef<'_>| key.to_bytes();
        assert_eq!(bytes(PrimaryKeyRef::Int64(-1)), [0x7f, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(bytes(PrimaryKeyRef::Int64(258)), [0x80, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(bytes(PrimaryKeyRef::VarChar("a\0b")), [b'a', 0, 255, b'b', 0, 1]);
        assert_eq!(bytes(PrimaryKeyRef::VarChar("")), [0, 1]);
    }

    #[test]
    fn other_bytes_are_no_key() {
        for bytes in [&[][..], &[0], &[1], &[0, 1, 0, 1], &[0, 0, 0, 1], &[0xff, 0, 1], b"a"] {
            let found = PrimaryKey::decode(KeyType::VarChar, bytes);
            assert!(found.is_err(), "{bytes:?} gave {found:?}");
        }
        for length in [0, 7, 9] {
            assert!(PrimaryKey::decode(KeyType::Int64, &vec![0; length]).is_err());
        }
    }

    proptest! {
        #[test]
        fn bytes_sort_as_keys_whatever_follows(
            a in key(), b in key(), after_a in any::<[u8; 3]>(), after_b in any::<[u8; 3]>(),
        ) {
            prop_assume!(a.as_ref().key_type() == b.as_ref().key_type());
            let (a_bytes, b_bytes) = (a.as_ref().to_bytes(), b.as_ref().to_bytes());
            prop_assert_eq!(PrimaryKey::decode(a.as_ref().key_type(), &a_bytes), Ok(a.clone()));
            prop_assert_eq!(a_bytes.cmp(&b_bytes), a.cmp(&b));
            if a != b {
                let followed = [&a_bytes[..], &after_a].concat().cmp(&[&b_bytes[..], &after_b].concat());
                prop_assert_eq!(followed, a.cmp(&b));
            }
        }
    }
}
