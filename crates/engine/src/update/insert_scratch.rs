//! What a thread that inserts keeps from one call to the next.

use super::images::SeenPages;
use crate::search::Driver;

/// Scratch of a thread that inserts, kept for reuse.
pub(super) struct InsertScratch {
    pub(super) driver: Driver,
    pub(super) seen: Vec<SeenPages>,
}
