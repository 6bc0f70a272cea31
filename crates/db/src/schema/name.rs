//! Names of fields, collections and everything else that users name.

use super::limits::MAX_NAME_BYTES;

/// A name that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid {what} name `{name}`: a name is 1 to {MAX_NAME_BYTES} letters, digits and underscores \
     of ASCII, and does not begin with a digit"
)]
pub struct NameError {
    /// What was to be named.
    pub what: &'static str,
    /// The name, shortened to 255 characters.
    pub name: String,
}

/// Checks the name of a `what`.
///
/// # Errors
/// [`NameError`] where it is empty, longer than 255, or has other characters.
pub fn check_name(what: &'static str, name: &str) -> Result<(), NameError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    if starts_well && name.len() <= MAX_NAME_BYTES && name.bytes().all(plain) {
        return Ok(());
    }
    Err(NameError { what, name: name.chars().take(MAX_NAME_BYTES).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ascii_words() {
        for name in ["a", "_", "_9", "Abc_1", &"x".repeat(255)] {
            assert_eq!(check_name("field", name), Ok(()), "{name}");
        }
        for name in ["", "9a", "a-b", "ä", "a b", "$meta", "a.b", &"x".repeat(256)] {
            let error = check_name("field", name).unwrap_err();
            assert!(error.to_string().starts_with("invalid field name `"), "{error}");
            assert!(name.starts_with(&error.name));
        }
    }
}
