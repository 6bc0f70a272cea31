//! Where a database comes from that is open for reading only.

use std::path::PathBuf;

use crate::snapshot::Captured;

/// What a database that is open for reading only knows of where it comes from.
#[derive(Debug)]
pub(super) struct ReadOnlySource {
    pub(super) source: PathBuf,
    pub(super) pins: Option<PathBuf>,
    pub(super) captured: Captured,
}
