//! Paths inside an index directory, as the manifest stores them.

use std::fmt;

use super::constants::MAX_PATH_BYTES;
use super::error::FormatError;

/// A path that cannot leave the directory it is joined to: letters, digits, `.`, `_`, `-`,
/// parts separated by `/`, none of them empty, `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RelativePath(String);

impl RelativePath {
    /// Checks `path`.
    ///
    /// # Errors
    /// [`FormatError::Path`] where it is absolute, too long or contains anything else.
    pub fn new(path: &str) -> Result<Self, FormatError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let part_is_fine =
            |part: &str| !part.is_empty() && part != "." && part != ".." && part.bytes().all(plain);
        if path.len() > MAX_PATH_BYTES || !path.split('/').all(part_is_fine) {
            // The message stays short whatever the input was.
            let found = path.chars().take(MAX_PATH_BYTES).collect();
            return Err(FormatError::Path { found });
        }
        Ok(Self(path.to_owned()))
    }

    /// The path, with `/` between its parts.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `file` inside this directory, with `/` between all parts.
    pub fn join(&self, file: &Self) -> String {
        format!("{}/{}", self.0, file.0)
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
