//! Names of fields, collections and everything else that users name.

use super::limits::MAX_NAME_BYTES;

/// A name that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} name `{name}`: a name is 1 to {MAX_NAME_BYTES} {rule}")]
pub struct NameError {
    /// What was to be named.
    pub what: &'static str,
    /// The name, shortened to 255 characters.
    pub name: String,
    /// What it is to be made of.
    pub rule: &'static str,
}

const WORDS: &str = "letters, digits and underscores of ASCII, and does not begin with a digit";
const DATES_TOO: &str =
    "letters, digits, underscores and hyphens of ASCII, and does not begin with a hyphen";

/// Checks the name of a `what`.
///
/// # Errors
/// [`NameError`] where it is empty, longer than 255, or has other characters.
pub fn check_name(what: &'static str, name: &str) -> Result<(), NameError> {
    let starts_well = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    if starts_well && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(refused(what, name, WORDS))
}

/// Checks the name of a partition, which can be a date too: it may begin with a digit, and have
/// hyphens further on.
///
/// # Errors
/// [`NameError`] where it is empty, longer than 255, or has other characters.
pub fn check_partition_name(name: &str) -> Result<(), NameError> {
    let starts_well = name.bytes().next().is_some_and(is_plain);
    let fits = |byte: u8| is_plain(byte) || byte == b'-';
    if starts_well && name.len() <= MAX_NAME_BYTES && name.bytes().all(fits) {
        return Ok(());
    }
    Err(refused("partition", name, DATES_TOO))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn refused(what: &'static str, name: &str, rule: &'static str) -> NameError {
    NameError { what, name: name.chars().take(MAX_NAME_BYTES).collect(), rule }
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

    #[test]
    fn partitions_can_be_named_by_dates() {
        for name in ["2024-01-31", "_default", "a-b", "7", &"9".repeat(255)] {
            assert_eq!(check_partition_name(name), Ok(()), "{name}");
        }
        for name in ["", "-a", "ä", "a b", "a.b", &"x".repeat(256)] {
            let error = check_partition_name(name).unwrap_err();
            assert!(error.to_string().contains("hyphens"), "{error}");
        }
    }
}
