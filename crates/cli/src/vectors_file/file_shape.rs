//! What a file's header says of its rows, held against the file's length.

use anyhow::{Result, ensure};
use pipeann_engine::types::VectorType;

/// What a format's parser finds: rows, dimension, type, and where the rows begin.
pub(super) struct FileShape {
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) ty: VectorType,
    pub(super) start: usize,
}

/// Refuses a file that is shorter or longer than it says.
pub(super) fn check_length(found: usize, announced: u128, says: &str) -> Result<()> {
    let found = found as u128;
    ensure!(
        found >= announced,
        "truncated: {says}, which takes {announced} bytes, but the file has {found}"
    );
    ensure!(
        found == announced,
        "{says}, which takes {announced} bytes, but the file has {found}: \
         the extension or the header is wrong"
    );
    Ok(())
}
