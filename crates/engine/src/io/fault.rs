//! What keeps something from being read: whether its bytes are to blame, or who reads them.

use super::error::{Errno, IoError};
use crate::types::ErrorClass;

/// Why something was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// It is not what was written, or it ends early.
    Damaged,
    /// The system cannot read it.
    Failed,
    /// The system was short of memory or descriptors just then. It may be sound, and be read later.
    Shortage,
}

impl ReadFault {
    /// What an error of the file system says of the file.
    pub fn of(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Damaged,
            _ if Errno::of(error).is_shortage() => Self::Shortage,
            _ => Self::Failed,
        }
    }

    /// Whether to retry or to stop.
    pub fn class(self) -> ErrorClass {
        match self {
            Self::Damaged | Self::Failed => ErrorClass::Stop,
            Self::Shortage => ErrorClass::Retry,
        }
    }
}

impl IoError {
    /// What kept it from being read, where it was to be.
    pub fn fault(&self) -> ReadFault {
        match self {
            Self::Short { .. } => ReadFault::Damaged,
            _ if self.class() == ErrorClass::Retry => ReadFault::Shortage,
            _ => ReadFault::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_shortage_is_no_damage_and_may_be_tried_again() {
        let of = |errno| ReadFault::of(&io::Error::from_raw_os_error(errno));
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN] {
            assert_eq!(of(errno), ReadFault::Shortage);
            let broken = [
                IoError::Submit { errno: Errno(errno) },
                IoError::Setup { what: "a ring", errno: Errno(errno) },
            ];
            for error in broken {
                assert_eq!(error.fault(), ReadFault::Shortage, "{error}");
                assert_eq!(error.class(), ErrorClass::Retry, "{error}");
            }
        }
        assert_eq!(of(libc::EIO), ReadFault::Failed);
        assert_eq!(IoError::Submit { errno: Errno(libc::EIO) }.class(), ErrorClass::Stop);
        assert_eq!(ReadFault::of(&io::ErrorKind::UnexpectedEof.into()), ReadFault::Damaged);
        let path = std::sync::Arc::from(std::path::Path::new("codes"));
        let short = IoError::Short { path, offset: 0, wanted: 4096, got: 7 };
        assert_eq!(short.fault(), ReadFault::Damaged);
    }
}
