//! What can go wrong with a file, in a form that tells the reader what to do next.

use std::fmt;
use std::io;
use std::path::PathBuf;

use pipeann_engine::io::Errno;

use crate::ids::ErrorClass;

/// What was being done when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Creating a file.
    Create,
    /// Creating a directory.
    CreateDir,
    /// Opening a file.
    Open,
    /// Reading from a file.
    Read,
    /// Appending to a file.
    Append,
    /// Keeping room for what is to be appended.
    Reserve,
    /// Putting a file on stable storage.
    Sync,
    /// Renaming a file.
    Rename,
    /// Removing a file or a directory.
    Remove,
    /// Putting the names of a directory on stable storage.
    SyncDir,
    /// Listing a directory.
    List,
    /// Asking for a length or for the free space.
    Measure,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::CreateDir => "create the directory",
            Self::Open => "open",
            Self::Read => "read",
            Self::Append => "append to",
            Self::Reserve => "keep room for",
            Self::Sync => "sync",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::SyncDir => "sync the directory",
            Self::List => "list",
            Self::Measure => "measure",
        })
    }
}

/// An error of a [`Disk`](super::Disk) or of one of its files. Cloned where several callers
/// have to be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// The file or directory is not there.
    #[error("cannot {action} {}: there is no such file or directory", path.display())]
    NotFound {
        /// What was being done.
        action: Action,
        /// The file or directory.
        path: PathBuf,
    },
    /// The name is taken.
    #[error("cannot {action} {}: it exists already", path.display())]
    Exists {
        /// What was being done.
        action: Action,
        /// The file or directory.
        path: PathBuf,
    },
    /// This user may not do that, or the file system is mounted read-only.
    #[error("cannot {action} {}: {errno}; check its owner, its mode and the mount", path.display())]
    Permission {
        /// What was being done.
        action: Action,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        errno: Errno,
    },
    /// The disk or a quota is full.
    #[error("cannot {action} {}: no space left; free some, or raise the quota", path.display())]
    NoSpace {
        /// What was being done.
        action: Action,
        /// The file or directory.
        path: PathBuf,
    },
    /// A path that leaves the tree, or is no plain path.
    #[error(
        "path `{found}` is refused: parts of letters, digits, `.`, `_` and `-`, separated by \
         `/`, none of them empty, `.` or `..`"
    )]
    Path {
        /// Path found.
        found: String,
    },
    /// The file is larger than what can be right.
    #[error("{} has {found} bytes, more than the {limit} it can have", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest length accepted.
        limit: u64,
        /// Its length.
        found: u64,
    },
    /// The lock of the directory was removed or replaced while it was held, so that another process
    /// may write there, too. Nothing is written any more.
    #[error(
        "{} was removed while this process held it: nothing is written any more; see that no other \
         process has the directory open, and start again",
        path.display()
    )]
    LockLost {
        /// The lock file.
        path: PathBuf,
    },
    /// Anything else that the system answered.
    #[error("cannot {action} {}: {errno}", path.display())]
    Io {
        /// What was being done.
        action: Action,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        errno: Errno,
    },
}

impl DiskError {
    /// What the system's `error` means for `action` on `path`.
    pub(crate) fn of(action: Action, path: PathBuf, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound { action, path },
            io::ErrorKind::AlreadyExists => Self::Exists { action, path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Permission { action, path, errno: Errno::of(error) }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { action, path }
            }
            _ => Self::Io { action, path, errno: Errno::of(error) },
        }
    }

    /// Whether to retry, to fix the input or the machine, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Exists { .. }
            | Self::Permission { .. }
            | Self::NoSpace { .. }
            | Self::Path { .. } => ErrorClass::FixInput,
            Self::NotFound { .. }
            | Self::TooLarge { .. }
            | Self::LockLost { .. }
            | Self::Io { .. } => ErrorClass::Stop,
        }
    }

    /// What was being done, where the system was asked at all.
    pub fn action(&self) -> Option<Action> {
        match self {
            Self::NotFound { action, .. }
            | Self::Exists { action, .. }
            | Self::Permission { action, .. }
            | Self::NoSpace { action, .. }
            | Self::Io { action, .. } => Some(*action),
            Self::Path { .. } | Self::TooLarge { .. } | Self::LockLost { .. } => None,
        }
    }

    /// Whether it says that a file or directory is missing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}
