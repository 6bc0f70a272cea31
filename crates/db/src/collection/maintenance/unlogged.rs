//! Links that the log lacks.

use crate::schema::FieldId;
use crate::wal::Link;

/// Links that were made, and that the log had no room for.
#[derive(Debug, Default)]
pub(in crate::collection) struct Unlogged(pub(super) Vec<Link>);

impl Unlogged {
    /// The graph of a field is on disk with its links, or another one, or gone.
    pub(in crate::collection) fn forget(&mut self, field: FieldId) {
        self.0.retain(|link| link.field != field.0);
    }
}
