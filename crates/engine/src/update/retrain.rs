//! A codebook for the rows of now, and how far the one in use is from them.
//!
//! Codes stand for vectors as those were when the codebook was trained. Rows of other kinds are
//! coded worse, and a search that is led by such codes reads more and finds less. The codebook
//! knows its error on the rows of its training; a sample of the rows of now, some hundred page
//! reads, tells the error on these. Searches see the same difference for free, but only around
//! their queries; and a sample needs no memory of earlier searches when the index is opened.

use super::error::UpdateError;
use super::generation::Generation;
use super::images::{PageReader, Spare};
use crate::quant::{CodeOptions, Codebook};
use crate::search::PageSource;
use crate::types::{PageId, VectorSet};

/// Pages read at once.
const BATCH: usize = 64;
/// Rows that tell how well codes fit.
const SAMPLE_ROWS: usize = 4096;

/// Errors below this share of how far the rows lie apart change no order of neighbours. Long codes
/// of few rows have next to none, and twice as much of that is no drift.
const LEAST_ERROR: f32 = 0.001;

/// The vectors of about `wanted` rows, of pages spread over the whole index.
fn sample(generation: &Generation, wanted: usize) -> Result<Vec<u8>, UpdateError> {
    let layout = generation.layout();
    let pages = generation.page_count() as usize;
    let rows = generation.rows.len() as usize;
    let count = (wanted * pages).div_ceil(rows.max(1)).min(pages);
    let chosen: Vec<PageId> = (0..count).map(|i| PageId((i * pages / count) as u32)).collect();
    let mut reader = PageReader::new(&generation.index, 0)?;
    let mut vectors = Vec::with_capacity(wanted * layout.vector_bytes());
    for some in chosen.chunks(BATCH) {
        reader.load(&generation.index, some)?;
        for &page in some {
            let records = generation.records(&reader, page).expect("the page was loaded");
            let mut slots = records.occupied();
            while slots != 0 {
                let slot = slots.trailing_zeros() as usize;
                slots &= slots - 1;
                vectors.extend_from_slice(records.vector(slot));
            }
        }
    }
    Ok(vectors)
}

fn set_of<'v>(generation: &Generation, vectors: &'v [u8]) -> VectorSet<'v> {
    let layout = generation.layout();
    VectorSet::new(vectors, layout.dim(), layout.vector_type()).expect("whole vectors were read")
}

/// Trains a codebook on the rows of now, or on as many as memory has room for.
pub(super) fn train(generation: &Generation) -> Result<Codebook, UpdateError> {
    let vector_bytes = generation.layout().vector_bytes();
    let wanted = CodeOptions::MOST_TRAINING_ROWS * vector_bytes;
    let spare = Spare::take(generation.index.accountant(), wanted);
    let vectors = sample(generation, spare.bytes() / vector_bytes)?;
    let manifest = generation.index.manifest();
    let options = generation.index.view().codebook.options(manifest.build.seed);
    let book = Codebook::train(set_of(generation, &vectors), manifest.metric, &options);
    Ok(book.with_version(manifest.codebook_version + 1))
}

/// The error of codes on the rows of now over that on the rows of the training. `None` where the
/// codebook does not know the latter, or there are no rows.
pub(super) fn code_drift(generation: &Generation) -> Result<Option<f32>, UpdateError> {
    let book = generation.index.view().codebook;
    let Some(trained) = book.training_error() else { return Ok(None) };
    let vectors = sample(generation, SAMPLE_ROWS)?;
    let set = set_of(generation, &vectors);
    let least = LEAST_ERROR * book.spread(set, SAMPLE_ROWS);
    let error = book.error(set, SAMPLE_ROWS);
    Ok(error.map(|now| if now <= trained { 1.0 } else { (now + least) / (trained + least) }))
}
