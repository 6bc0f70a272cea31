//! Pins: the files of a moment, kept for as long as somebody reads them.

use std::fs;
use std::io;
use std::path::Path;

use super::capture::{Captured, HoldFiles, capture};
use super::error::SnapshotError;
use crate::catalog::CATALOG_FILE;
use crate::disk::{Action, DiskError, HeldDir};

/// The directory, below that of the database, that holds pins unless another is named.
pub const PINS_DIR: &str = "pins";

/// Begins the name of a pin, before the number of its process.
const PREFIX: &str = "pin-";

/// Takes the database in `source` into a pin in `place`, or in the database's own directory of
/// pins. Pins of processes that have ended are removed on the way.
pub(crate) fn pinned(
    source: &Path,
    place: Option<&Path>,
    hold: &HoldFiles<'_>,
) -> Result<(HeldDir, Captured), SnapshotError> {
    // Before a directory is made among somebody else's files.
    if !source.join(CATALOG_FILE).is_file() {
        return Err(SnapshotError::NotADatabase { dir: source.to_owned(), file: CATALOG_FILE });
    }
    let place = place.map_or_else(|| source.join(PINS_DIR), Path::to_owned);
    let pin = place_for_pin(&place).map_err(|source| match source {
        DiskError::Permission { .. } => SnapshotError::NoPlaceForPin { source },
        other => other.into(),
    })?;
    let captured = capture(source, pin.path(), hold)?;
    Ok((pin, captured))
}

fn place_for_pin(place: &Path) -> Result<HeldDir, DiskError> {
    match fs::create_dir(place) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(DiskError::of(Action::CreateDir, place.to_owned(), &e));
        }
        _ => {}
    }
    HeldDir::remove_stale(place, PREFIX)?;
    HeldDir::take(place, PREFIX)
}

/// Removes the pins that processes which have ended left in the database in `source`.
pub(crate) fn remove_stale_pins(source: &Path) -> Result<usize, DiskError> {
    HeldDir::remove_stale(&source.join(PINS_DIR), PREFIX)
}
