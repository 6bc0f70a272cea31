//! What stores on real files have in common: the fields and bitmaps of their bytes, the lock of a
//! directory, replacing a file as a whole, and which answers of the system may be tried again.
//!
//! A store that has to be simulated goes through [`disk`](crate::disk) instead.

mod bitmaps;
mod bytes;
#[cfg(test)]
pub(crate) mod damage;
#[cfg(test)]
pub(crate) mod documentation;
mod lock;
mod replace;

pub(crate) use bitmaps::{take_bitmap, take_treemap};
pub(crate) use bytes::{ByteField, agrees, checksum, field, get, put, u32_at, u64_at};
pub(crate) use lock::{FileLock, LOCK_NAME};
pub(crate) use replace::replace;

use std::io;

use crate::ids::ErrorClass;

/// What helps against an answer of the system: room may be made, a mode or a mount may be
/// changed, and anything else is to be looked at.
pub(crate) fn class_of(error: &io::Error) -> ErrorClass {
    match error.kind() {
        io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::FileTooLarge
        | io::ErrorKind::Interrupted => ErrorClass::Retry,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorClass::FixInput,
        _ => ErrorClass::Stop,
    }
}

/// Whether the disk, or a quota, has no room.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// An identity as people see it.
pub(crate) fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
