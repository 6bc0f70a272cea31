//! Snapshots, backups and pins: all files of a database as they are at one moment.
//!
//! Nearly all files of a database never change once a small one names them, and the small ones
//! are replaced whole. So a moment is taken by giving the files second names (hard links) and
//! reading the small ones twice, beside whoever writes, who is neither asked nor held up: see
//! `component` for one component, `log` for the log, `capture` for the whole. What was taken
//! is a directory that opens like any database after a crash, by replaying its log.
//!
//! - A **snapshot** is such a directory, kept.
//! - A **pin** is one that lasts as long as its reader: it reads there what the writer has long
//!   replaced, and may write there without touching the database. The space of replaced files is
//!   held until the pin goes; a killed reader's pin goes when somebody else comes by.
//! - A **backup** is made from a pin: copies with checksums, listed by the file `BACKUP`; what
//!   an earlier backup already has is linked from there.
//!
//! What is being made has another name until it is whole and on stable storage.
//!
//! Deliberately absent: what rows are; opening a database, which is `database`'s.

mod backup;
mod backup_file;
mod capture;
mod component;
mod error;
mod log;
mod pin;
mod restore;
mod transfer;

pub use backup::{BackupOptions, BackupReport, backup_directory};
pub use backup_file::{BACKUP_FILE, BACKUP_VERSION, BackedUpFile, BackupManifest};
pub use capture::{Captured, CapturedCollection};
pub use error::SnapshotError;
pub use pin::PINS_DIR;
pub use restore::{BackupFinding, restore, verify_backup};

pub(crate) use backup::backup;
pub(crate) use capture::{HoldFiles, capture_kept};
pub(crate) use pin::{pinned, remove_stale_pins};
