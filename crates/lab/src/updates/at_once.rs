//! Rows linked several at a time, with a checkpoint where the index has no room for more.

use anyhow::{Context, Result};
use pipeann_engine::types::RowId;
use pipeann_engine::update::{LinkPace, LinkedRow, LiveIndex, UpdateError};

/// Rows given to the index at once: their searches share the wait for the device, and
/// checkpoints wait for no more than these.
pub(super) const AT_ONCE: usize = 32;

/// Links rows; `linked` is told of each, and `checkpoint` makes room where there is none.
///
/// # Errors
/// The first failure of an insert or a checkpoint; other rows of the same call may be linked.
pub(super) fn insert_rows<'v>(
    (index, pace): (&LiveIndex, LinkPace),
    rows: impl IntoIterator<Item = (RowId, &'v [u8])>,
    mut linked: impl FnMut(&LinkedRow),
    mut checkpoint: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut rows: Vec<_> = rows.into_iter().collect();
    while !rows.is_empty() {
        let (mut left, mut failure) = (Vec::new(), None);
        index.insert_many(&rows, pace, &mut |nth, outcome| match outcome {
            Ok(link) => linked(&link),
            Err(UpdateError::Full { .. } | UpdateError::Memory(_)) => left.push(rows[nth]),
            Err(error) => failure = failure.take().or(Some((rows[nth].0, error))),
        })?;
        if let Some((row, error)) = failure {
            return Err(error).with_context(|| format!("row {}", row.0));
        }
        if !left.is_empty() {
            checkpoint()?;
        }
        rows = left;
    }
    Ok(())
}
