//! `.fbin` and its kin, one for each type: u32 rows, u32 dimension, then the rows, little-endian.

use anyhow::{Result, ensure};
use pipeann_engine::types::VectorType;

use super::file_shape::{FileShape, check_length};

pub(super) const HEADER_BYTES: usize = 8;

/// Reads the header and compares the length that it announces with the one found.
pub(super) fn shape(bytes: &[u8], ty: VectorType) -> Result<FileShape> {
    ensure!(
        bytes.len() >= HEADER_BYTES,
        "the file has {} bytes, but its header alone takes {HEADER_BYTES}",
        bytes.len()
    );
    let word =
        |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let (rows, dim) = (word(0), word(4));
    let announced = HEADER_BYTES as u128 + rows as u128 * ty.vector_bytes(dim) as u128;
    check_length(bytes.len(), announced, &format!("its header announces {rows} x {dim} {ty}"))?;
    Ok(FileShape { rows, dim, ty, start: HEADER_BYTES })
}
