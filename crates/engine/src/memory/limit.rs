//! A memory limit as people write it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::Accountant;

/// How much memory what is opened may hold: one index, or a database with all of its collections.
/// What is needed comes first, and pages fill what is left, those that are used most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryLimit {
    /// Only what is needed at least: no pages stay in memory.
    #[default]
    Floor,
    /// No limit: all pages stay in memory.
    All,
    /// So many bytes.
    Bytes(u64),
}

impl MemoryLimit {
    /// The bytes, where there is a limit.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Floor | Self::All => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }

    /// An accountant with this limit.
    pub fn accountant(self) -> Arc<Accountant> {
        Accountant::new(self.bytes())
    }

    /// Bytes from `123`, `512MiB`, `1.5 GiB` (powers of 1024) or `2GB` (powers of 1000).
    pub fn parse_bytes(s: &str) -> Option<u64> {
        let split = s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
        let (number, unit) = s.split_at(split);
        let scale = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return None,
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(scale);
        }
        let bytes = number.parse::<f64>().ok()? * scale as f64;
        (bytes < u64::MAX as f64).then_some(bytes as u64)
    }
}

/// What is no memory limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLimitError(String);

impl fmt::Display for ParseLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = &self.0;
        write!(f, "`{found}` is no memory limit; expected floor, all, or bytes as 512MiB or 1GiB")
    }
}

impl std::error::Error for ParseLimitError {}

impl FromStr for MemoryLimit {
    type Err = ParseLimitError;

    fn from_str(s: &str) -> Result<Self, ParseLimitError> {
        match s {
            "floor" => Ok(Self::Floor),
            "all" => Ok(Self::All),
            _ => Self::parse_bytes(s).map(Self::Bytes).ok_or_else(|| ParseLimitError(s.into())),
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Floor => f.write_str("floor"),
            Self::All => f.write_str("all"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limits_are_read_with_units() {
        let bytes = |s: &str| match s.parse() {
            Ok(MemoryLimit::Bytes(b)) => b,
            other => panic!("{s}: {other:?}"),
        };
        assert_eq!(bytes("123"), 123);
        assert_eq!(bytes("1GiB"), 1 << 30);
        assert_eq!(bytes("512 mib"), 512 << 20);
        assert_eq!(bytes("1.5KiB"), 1536);
        assert_eq!(bytes("2GB"), 2_000_000_000);
        assert_eq!("floor".parse(), Ok(MemoryLimit::Floor));
        assert_eq!("all".parse(), Ok(MemoryLimit::All));
        for bad in ["", "GiB", "-1", "1 parsec", "1.2.3", "99999999999TiB", "1e400"] {
            let error = bad.parse::<MemoryLimit>().unwrap_err();
            assert!(error.to_string().contains("512MiB"), "{error}");
        }
    }
}
