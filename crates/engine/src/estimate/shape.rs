//! What follows from the layout alone: pages, and the memory that searching takes.

use super::{EstimateError, Limit};
use crate::build::BuildOptions;
use crate::format::constants::BLOCK_BYTES;
use crate::format::{LayoutOptions, RecordLayout};
use crate::quant::{CodeKind, chosen_code_bytes};
use crate::types::VectorType;

/// Scratch that every open index has.
const SCRATCH_BYTES: u64 = 4 << 20;
/// Bytes of a codebook for each component.
const CODEBOOK_BYTES: u64 = 1024;
/// Checksum and state of a block of codes.
const BLOCK_NOTES: u64 = 9;
/// Notes for each page where pages are kept: its frame and its heat, and holders for as many frames.
const PAGE_NOTES: u64 = 9;

/// The layout of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Rows.
    pub rows: u64,
    /// Components of a vector.
    pub dim: usize,
    /// Bytes of a vector.
    pub vector_bytes: usize,
    /// Bytes of its code in memory.
    pub code_bytes: usize,
    /// Records in a page.
    pub records_per_page: usize,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages, up to one or two.
    pub pages: u64,
    /// Length of a code over that of the usual one.
    pub(super) code_length: f64,
    head_bytes: u64,
}

/// Memory of a searched index, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBytes {
    /// What it opens with at least.
    pub floor: u64,
    /// What it takes of the limit.
    pub total: u64,
    pages: u64,
}

impl Shape {
    pub(super) fn of(
        rows: u64,
        dim: usize,
        ty: VectorType,
        options: &BuildOptions,
    ) -> Result<Self, EstimateError> {
        let layout = RecordLayout::choose_with(&LayoutOptions {
            fill: options.fill,
            page_bytes: options.page_bytes,
            ..LayoutOptions::new(dim, ty, options.graph.degree, rows)
        })?;
        let in_use = (layout.records_per_page() as f64 * layout.fill()).max(1.0);
        let head_nodes = (rows as f64 * options.head.fraction).ceil() as u64;
        let usual = chosen_code_bytes(CodeKind::Product, dim, ty, None);
        let asked =
            options.code_bytes.unwrap_or_else(|| chosen_code_bytes(options.codes, dim, ty, None));
        let code_bytes = options.codes.longest_within(dim, asked).unwrap_or(asked);
        Ok(Self {
            rows,
            dim,
            vector_bytes: layout.vector_bytes(),
            code_bytes,
            records_per_page: layout.records_per_page(),
            page_bytes: layout.page_bytes(),
            pages: (rows as f64 / in_use).ceil() as u64 + 1,
            code_length: code_bytes as f64 / usual as f64,
            head_bytes: head_nodes * (options.head.degree as u64 + 2) * 4,
        })
    }

    fn floor_bytes(&self) -> u64 {
        let codes = self.pages * (self.records_per_page * self.code_bytes) as u64;
        codes
            + codes.div_ceil(BLOCK_BYTES as u64) * BLOCK_NOTES
            + self.dim as u64 * CODEBOOK_BYTES
            + self.head_bytes
            + self.pages * 4
            + SCRATCH_BYTES
    }

    /// What searching takes under a limit: the floor, and as many pages as there is room for.
    pub(super) fn memory(&self, limit: Limit) -> Result<MemoryBytes, EstimateError> {
        let floor = self.floor_bytes();
        let (notes, frame) = (self.pages * PAGE_NOTES, self.page_bytes as u64);
        let pages = match limit {
            Limit::Floor => 0,
            Limit::All => self.pages,
            Limit::Bytes(limit) if limit < floor => {
                return Err(EstimateError::BelowFloor { limit, needed: floor });
            }
            Limit::Bytes(limit) => ((limit - floor).saturating_sub(notes) / frame).min(self.pages),
        };
        let kept = if pages == 0 { 0 } else { pages * frame + notes };
        Ok(MemoryBytes { floor, total: floor + kept, pages })
    }

    pub(super) fn resident_share(&self, memory: &MemoryBytes) -> f64 {
        memory.pages as f64 / self.pages as f64
    }
}
