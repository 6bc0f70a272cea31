//! The codebook as bytes, without checksum: the file around it brings one.
//!
//! `docs/disk-format.md` has the tables. The layout tells the kind: 1 and 2 are of product
//! quantisation, 1 without the error on the rows of the training; 3 is of RaBitQ.

use super::CENTROIDS;
use super::codebook::{Codebook, Coder};
use super::codebook_error::{CodebookError, MAGIC, RABITQ};
use super::kind::{CodeKind, FACTOR_BYTES, padded};
use super::rabitq::Rabitq;
use crate::format::constants::{ByteField, codebook_start as start, rabitq_start};
use crate::types::Metric;

/// The layout with centroids.
const PRODUCT: u16 = 2;
/// The layout before, without the error.
const WITHOUT_ERROR: u16 = 1;
/// Stands for an error that is not known.
const UNKNOWN: u32 = u32::MAX;

impl Codebook {
    /// The codebook as bytes that describe themselves.
    pub fn to_bytes(&self) -> Vec<u8> {
        let number = |n: usize| u32::try_from(n).expect("dimensions fit 32 bits").to_le_bytes();
        let mut out = vec![0; start::BYTES];
        let mut put = |field: ByteField, bytes: &[u8]| {
            out[field.offset..field.offset + field.bytes].copy_from_slice(bytes);
        };
        let layout = if self.kind() == CodeKind::Rabitq { RABITQ } else { PRODUCT };
        put(start::MAGIC, &MAGIC);
        put(start::LAYOUT, &layout.to_le_bytes());
        put(start::METRIC, &(self.metric() as u16).to_le_bytes());
        put(start::DIM, &number(self.dim()));
        put(start::CODE_BYTES, &number(self.code_bytes()));
        put(start::VERSION, &self.version().to_le_bytes());
        let error = self.training_error().map_or(UNKNOWN, f32::to_bits);
        put(start::TRAINING_ERROR, &error.to_le_bytes());
        let values = match self.coder() {
            Coder::Product(product) => &product.centroids,
            Coder::Rabitq(rabitq) => {
                out.extend((rabitq.bits as u16).to_le_bytes());
                out.extend([0; rabitq_start::RESERVED.bytes]);
                out.extend(rabitq.seed.to_le_bytes());
                &rabitq.mean
            }
        };
        out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        out
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. Allocates only after the length was
    /// found to be right.
    ///
    /// # Errors
    /// [`CodebookError`] for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodebookError> {
        let Some((head, body)) = bytes.split_first_chunk::<{ start::BYTES }>() else {
            return Err(too_short(bytes, start::BYTES));
        };
        let magic = get_u32(head, start::MAGIC).to_le_bytes();
        if magic != MAGIC {
            return Err(CodebookError::Magic { found: magic });
        }
        let layout = get_u16(head, start::LAYOUT);
        if !(WITHOUT_ERROR..=RABITQ).contains(&layout) {
            return Err(CodebookError::Layout { found: layout });
        }
        let found = get_u16(head, start::METRIC);
        let metric = Metric::from_code(found).ok_or(CodebookError::Metric { found })?;
        let (dim, code_bytes) = (get_u32(head, start::DIM), get_u32(head, start::CODE_BYTES));
        let version = get_u32(head, start::VERSION);
        let error = get_u32(head, start::TRAINING_ERROR);
        if layout == WITHOUT_ERROR && error != 0 {
            return Err(CodebookError::Reserved { found: error });
        }
        let known = layout != WITHOUT_ERROR && error != UNKNOWN;
        let training_error = known.then(|| f32::from_bits(error));
        if training_error.is_some_and(|e| !e.is_finite() || e < 0.0) {
            return Err(CodebookError::NotFinite);
        }
        let (dim, code_bytes) = (dim as usize, code_bytes as usize);
        let book = if layout == RABITQ {
            Self::of_rabitq(rabitq(bytes, body, dim, code_bytes)?, metric, version)
        } else {
            let centroids = floats(bytes, start::BYTES, dim as u64 * CENTROIDS as u64)?;
            Self::from_parts(dim, code_bytes, metric, version, centroids)?
        };
        Ok(book.with_training_error(training_error))
    }
}

/// What stands behind the start of a codebook of RaBitQ codes, `body` of all `bytes`.
fn rabitq(
    bytes: &[u8],
    body: &[u8],
    dim: usize,
    code_bytes: usize,
) -> Result<Rabitq, CodebookError> {
    const HEAD_BYTES: usize = start::BYTES + rabitq_start::BYTES;
    let Some((head, _)) = body.split_first_chunk::<{ rabitq_start::BYTES }>() else {
        return Err(too_short(bytes, HEAD_BYTES));
    };
    let (bits, reserved) = (get_u16(head, rabitq_start::BITS), &head[2..8]);
    if let Some(&found) = reserved.iter().find(|&&byte| byte != 0) {
        return Err(CodebookError::Reserved { found: found.into() });
    }
    let mean = floats(bytes, HEAD_BYTES, dim as u64)?;
    if !mean.iter().all(|x| x.is_finite()) {
        return Err(CodebookError::NotFinite);
    }
    let plane = padded(dim) / 8;
    let known = (1..=CodeKind::MOST_BITS).contains(&usize::from(bits));
    if dim == 0 || !known || code_bytes != FACTOR_BYTES + usize::from(bits) * plane {
        return Err(CodebookError::Bits { bits, dim, code_bytes });
    }
    let at = rabitq_start::SEED.offset;
    let seed = u64::from(get_u32_at(head, at)) | u64::from(get_u32_at(head, at + 4)) << 32;
    Ok(Rabitq::new(bits.into(), mean, seed))
}

/// The `count` values behind the first `head` bytes, which must be all there is.
fn floats(bytes: &[u8], head: usize, count: u64) -> Result<Vec<f32>, CodebookError> {
    let (expected, found) = (head as u64 + 4 * count, bytes.len() as u64);
    if expected != found {
        return Err(CodebookError::Length { expected, found });
    }
    Ok(bytes[head..].as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect())
}

fn too_short(bytes: &[u8], expected: usize) -> CodebookError {
    CodebookError::Length { expected: expected as u64, found: bytes.len() as u64 }
}

fn get_u16(bytes: &[u8], field: ByteField) -> u16 {
    u16::from_le_bytes([bytes[field.offset], bytes[field.offset + 1]])
}

fn get_u32(bytes: &[u8], field: ByteField) -> u32 {
    get_u32_at(bytes, field.offset)
}

fn get_u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
