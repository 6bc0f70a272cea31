//! One writer per directory, and an error that says who it is.
//!
//! The lock is `flock` on the file `LOCK`, so it ends with the process, however that ends; what
//! the file says about its holder is for people: for a moment it may still name the one before, and
//! on a full disk it names nobody. Only a writer takes it. A reader beside it needs none: it gives
//! the files names of its own.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FlockOperation, flock};

use super::error::{Action, DiskError};
use crate::ids::ErrorClass;

/// Name of the lock file inside the directory.
pub const LOCK_NAME: &str = "LOCK";

/// More than a holder takes; the rest of a longer file is not looked at.
const MAX_LOCK_BYTES: u64 = 1024;

/// Who holds a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id on `host`.
    pub pid: u32,
    /// Name of the machine.
    pub host: String,
    /// When it took the directory, in seconds since 1970 by its own clock.
    pub since_unix_s: u64,
}

impl Holder {
    /// This process on this machine. The time is the caller's.
    pub fn this_process(since_unix_s: u64) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { pid: std::process::id(), host, since_unix_s }
    }

    fn encode(&self) -> String {
        format!("pid {}\nhost {}\nsince {}\n", self.pid, self.host, self.since_unix_s)
    }

    /// What a lock file says, if it says it whole.
    fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let holder = Self {
            pid: field("pid")?.parse().ok()?,
            host: field("host")?.to_owned(),
            since_unix_s: field("since")?.parse().ok()?,
        };
        text.ends_with('\n').then_some(holder)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, host, since_unix_s } = self;
        write!(f, "process {pid} on {host} since {}", Utc(*since_unix_s))
    }
}

/// Seconds since 1970 as `2026-11-21 12:00:00 UTC`.
struct Utc(u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        // Years begin in March here, so that the leap day is the last one; 400 years have
        // 146,097 days, and 719,468 days lead from March of year 0 to 1970.
        let shifted = days + 719_468;
        let (era, day) = (shifted / 146_097, shifted % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = era * 400 + year + carry;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

/// Why a directory could not be locked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Somebody else writes there.
    #[error(
        "{} is in use by {}; close it there, or open it read-only, as `pipeann db info`, `verify` and `backup` do",
        dir.display(),
        holder.as_ref().map_or_else(|| "another process".to_owned(), Holder::to_string)
    )]
    Held {
        /// The directory.
        dir: PathBuf,
        /// Who holds it; absent where its note is not readable yet.
        holder: Option<Holder>,
    },
    /// The lock file cannot be made, read or locked.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl LockError {
    /// Whether to retry, to fix the input or the machine, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Held { .. } => ErrorClass::Retry,
            Self::Disk(error) => error.class(),
        }
    }
}

/// The right to write below a directory; given back when dropped, or when the process ends.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
    path: PathBuf,
    /// Once lost, a lock stays so, even if the file comes back.
    lost: AtomicBool,
}

impl DirectoryLock {
    /// Takes the directory for `holder`, or tells who has it. Does not wait.
    ///
    /// # Errors
    /// [`LockError::Held`] where somebody, this process included, has it; [`LockError::Disk`]
    /// where the file `LOCK` cannot be created, or the file system has no locks.
    pub fn take(dir: &Path, holder: &Holder) -> Result<Self, LockError> {
        loop {
            let lock = Self::take_once(dir, holder)?;
            // One that was removed between being opened and being locked keeps nobody out.
            if lock.is_in_place() {
                return Ok(lock);
            }
        }
    }

    fn take_once(dir: &Path, holder: &Holder) -> Result<Self, LockError> {
        let path = dir.join(LOCK_NAME);
        let failed = |action, e: io::Error| DiskError::of(action, path.clone(), &e);
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(|e| failed(Action::Open, e))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(e) if e == rustix::io::Errno::WOULDBLOCK => {
                return Err(LockError::Held {
                    dir: dir.to_owned(),
                    holder: read_holder(&mut file),
                });
            }
            Err(e) => return Err(failed(Action::Open, e.into()).into()),
        }
        let note = holder.encode();
        let emptied = file.set_len(0).and_then(|()| file.rewind());
        match emptied.and_then(|()| file.write_all(note.as_bytes())) {
            Err(e) if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                tracing::warn!(path = %path.display(), "cannot note who holds the lock: {e}");
            }
            noted => noted.map_err(|e| failed(Action::Append, e))?,
        }
        Ok(Self { file, path, lost: AtomicBool::new(false) })
    }

    /// Whether the lock still keeps others out.
    ///
    /// # Errors
    /// [`DiskError::LockLost`], from the first time on that the file was found missing or replaced.
    pub fn check(&self) -> Result<(), DiskError> {
        if !self.lost.load(Ordering::Relaxed) && self.is_in_place() {
            return Ok(());
        }
        if !self.lost.swap(true, Ordering::Relaxed) {
            tracing::error!(path = %self.path.display(), "the lock was removed while it was held");
        }
        Err(DiskError::LockLost { path: self.path.clone() })
    }

    /// Whether the file that is locked is the one at the path.
    fn is_in_place(&self) -> bool {
        let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        match (self.file.metadata(), std::fs::metadata(&self.path)) {
            (Ok(held), Ok(there)) => same(&held, &there),
            // Where the system cannot say, nobody has removed it.
            (_, Err(e)) => e.kind() != ErrorKind::NotFound,
            (Err(_), _) => true,
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // The note goes first, so that nobody reads of a holder that is gone. Closing the file
        // would unlock it too, but not while a forked child has it open.
        let emptied = self.file.set_len(0);
        let unlocked = flock(&self.file, FlockOperation::Unlock).map_err(io::Error::from);
        if let Err(e) = emptied.and(unlocked) {
            tracing::warn!(path = %self.path.display(), "cannot give back a lock: {e}");
        }
    }
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.take(MAX_LOCK_BYTES).read_to_string(&mut text).ok()?;
    Holder::decode(&text)
}
