//! Opening an index or a database the same way in every command.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use pipeann_db::catalog::UnixMs;
use pipeann_engine::index::{Index, OpenOptions, Resident};
use pipeann_engine::io::BackendChoice;
use pipeann_engine::memory::Accountant;

/// The clock that databases are given.
pub(crate) fn now() -> UnixMs {
    #[expect(clippy::disallowed_methods, reason = "the command is where the clock comes in")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How much memory an opened index may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryLimit {
    /// Only what it needs at least: no pages stay in memory.
    Floor,
    /// All of it.
    All,
    /// So many bytes; pages fill what is left above the floor.
    Bytes(u64),
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "floor" => Ok(Self::Floor),
            "all" => Ok(Self::All),
            _ => parse_bytes(s).map(Self::Bytes).ok_or_else(|| {
                format!("`{s}` is no memory limit; expected floor, all, or bytes as 512MiB or 1GiB")
            }),
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

/// A limit in bytes, with or without a unit.
pub(crate) fn parse_limit(s: &str) -> Result<u64, String> {
    parse_bytes(s).ok_or_else(|| format!("`{s}` is no limit; expected bytes as 512MiB or 1GiB"))
}

/// Bytes from `123`, `512MiB`, `1.5 GiB` (powers of 1024) or `2GB` (powers of 1000).
fn parse_bytes(s: &str) -> Option<u64> {
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

/// Which index, and how its files are read.
#[derive(Clone, Debug, Args)]
pub(crate) struct IndexArgs {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    pub(crate) index: PathBuf,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// How files of an index are read.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Reading {
    /// Read through the page cache of the operating system instead of past it (O_DIRECT)
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Let a kernel thread submit reads (io_uring SQPOLL); burns a core
    #[arg(long)]
    pub(crate) sqpoll: bool,
    /// Keep only pages in memory that searches read, and read none ahead of them. Else a thread of
    /// low priority reads pages until all are there that fit, and what is measured waits for it
    #[arg(long)]
    pub(crate) no_warming: bool,
    /// By what reads are done: io_uring, libaio (wants O_DIRECT), threads, or auto for the best that
    /// may be used; that is taken too, with a warning, where another is refused. For measurements
    /// alone, injected:LATENCY_US[:READS_PER_S]: files are held in memory, outside of any limit, and
    /// each read takes the latency
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) backend: BackendChoice,
}

impl IndexArgs {
    /// Opens the index under a memory limit.
    ///
    /// # Errors
    /// Whatever keeps the index from opening; names the file, or the memory needed.
    pub(crate) fn open(&self, limit: MemoryLimit) -> Result<Index> {
        open(&self.index, limit, self.reading)
    }
}

/// Opens an index.
///
/// # Errors
/// As [`IndexArgs::open`].
pub(crate) fn open(path: &Path, limit: MemoryLimit, reading: Reading) -> Result<Index> {
    let (bytes, resident) = match limit {
        MemoryLimit::Floor => (None, Resident::None),
        MemoryLimit::All => (None, Resident::All),
        MemoryLimit::Bytes(bytes) => (Some(bytes), Resident::Remaining),
    };
    let options = OpenOptions {
        backend: Some(reading.backend.backend()),
        direct: !reading.buffered,
        // An accountant for each, since `bench` opens several indexes one after the other.
        accountant: Accountant::new(bytes),
        resident,
        warm: !reading.no_warming,
        sqpoll: reading.sqpoll,
        ..OpenOptions::default()
    };
    Ok(Index::open(path, &options)?)
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
            assert!(error.contains("512MiB"), "{error}");
        }
    }
}
