//! Byte counts that follow from rows and options: memory while building, files on disk.

use super::error::BuildError;
use super::leaf_links::ROW_BYTES;
use super::options::{BuildOptions, PartitionBy};
use super::partition_bounds::NEAR;
use crate::format::constants::BLOCK_BYTES;
use crate::format::{FileKind, LayoutOptions, RecordLayout};
use crate::quant::{CodeKind, chosen_code_bytes};
use crate::types::VectorType;

/// At least this many nodes are in a head index, as far as there are rows.
const FEWEST_HEAD_NODES: usize = 16;

/// Near neighbours kept per node for the page order, and for cuts.
pub(crate) const NEAREST: usize = 16;
const _: () = assert!(NEAR <= NEAREST);

/// What cutting the graph of near neighbours takes for each row, beside it and the lists of the graph.
const CUT_BYTES: u64 = 72 * NEAR as u64;

/// Memory that every opened index has for a query's scratch.
const SCRATCH_BYTES: u64 = 4 << 20;

/// The shape of an index before it is built.
pub(crate) struct Sizes {
    pub(crate) rows: u64,
    pub(crate) layout: RecordLayout,
    pub(crate) codes: CodeKind,
    pub(crate) code_bytes: usize,
    pub(crate) head_nodes: usize,
    partitions: u64,
    is_cut: bool,
    degree: u64,
    head_degree: u64,
}

impl Sizes {
    pub(crate) fn new(
        rows: u64,
        dim: usize,
        ty: VectorType,
        options: &BuildOptions,
    ) -> Result<Self, BuildError> {
        let layout = RecordLayout::choose_with(&LayoutOptions {
            fill: options.fill,
            page_bytes: options.page_bytes,
            ..LayoutOptions::new(dim, ty, options.graph.degree, rows)
        })?;
        let head_nodes = (rows as f64 * options.head.fraction).ceil() as usize;
        let head_nodes = head_nodes.max(FEWEST_HEAD_NODES).min(rows as usize);
        let mut sizes = Self {
            rows,
            layout,
            codes: options.codes,
            code_bytes: 0,
            head_nodes,
            partitions: options.partitions as u64,
            is_cut: options.partitions > 1 && options.partition_by == PartitionBy::Graph,
            degree: options.graph.degree as u64,
            head_degree: options.head.degree as u64,
        };
        sizes.code_bytes = match options.code_bytes {
            Some(asked) => options.codes.longest_within(dim, asked).unwrap_or(asked),
            None => {
                let room = options.search_memory.map(|limit| sizes.room_for_code(limit));
                chosen_code_bytes(options.codes, dim, ty, room)
            }
        };
        Ok(sizes)
    }

    /// Bytes that a code may have where searches have `limit` bytes of memory.
    fn room_for_code(&self, limit: u64) -> u64 {
        let head = self.head_nodes as u64 * (self.head_degree + 2) * 4;
        let codebook = self.layout.dim() as u64 * 1024;
        let others = SCRATCH_BYTES + head + codebook + self.pages() * 4;
        let slots = self.pages() * self.layout.records_per_page() as u64;
        // Codes are loaded in blocks, each of which has a checksum and a state.
        let codes = limit.saturating_sub(others) / (BLOCK_BYTES as u64 + 9) * BLOCK_BYTES as u64;
        codes / slots.max(1)
    }

    /// Pages, up to one or two.
    fn pages(&self) -> u64 {
        let per_page = self.layout.records_per_page() as f64;
        (self.rows as f64 / (per_page * self.layout.fill()).max(1.0)).ceil() as u64 + 1
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        let (pages, slots) = (self.pages(), self.pages() * self.layout.records_per_page() as u64);
        let file = |kind: FileKind, body: u64| kind.file_bytes(body).unwrap_or(u64::MAX);
        pages * self.layout.page_bytes() as u64
            + file(FileKind::Codes, slots * self.code_bytes as u64)
            + file(FileKind::PageMap, pages * 4)
            + file(FileKind::RowPairs, self.rows * if self.partitions > 1 { 8 } else { 4 })
            + self.head_nodes as u64 * (6 + 4 * self.head_degree)
            + self.layout.dim() as u64 * 1024
            + self.partitions * 16_384
    }

    pub(crate) fn peak_memory_bytes(&self) -> u64 {
        let vectors = self.layout.vector_bytes() as u64;
        let links = 4 * (self.degree + (self.degree / 3).max(1) + 1);
        let adjacency = 4 * (self.degree + 1);
        let nearest = 4 * NEAREST as u64;
        let affinity = 2 * NEAREST as u64 * 5 + 8;
        // Linking, or cutting or ordering with the finished graph beside it, whichever is most.
        let linking = vectors + links + ROW_BYTES + 12;
        let ordering = vectors + adjacency + nearest + affinity + 16;
        let cutting = if self.is_cut { vectors + adjacency + nearest + CUT_BYTES } else { 0 };
        let codes = self.code_bytes as u64;
        self.rows * (linking.max(ordering).max(cutting) + codes) + (64 << 20)
    }

    /// Bytes of an adjacency list.
    pub(crate) fn list_bytes(&self) -> u64 {
        4 * (self.degree + 1)
    }

    /// Bytes that a row of a shard takes while its graph is built and laid out.
    pub(crate) fn shard_row_bytes(&self) -> u64 {
        let (vector, nearest) = (self.layout.vector_bytes() as u64, 4 * NEAREST as u64);
        let links = 4 * (self.degree + (self.degree / 3).max(1) + 1);
        let affinity = 2 * NEAREST as u64 * 5 + 8;
        // The rows at home are about half; but nothing keeps them from being all.
        let ordering = self.list_bytes() + nearest + (vector + nearest).max(nearest + affinity);
        (vector + links + ROW_BYTES).max(ordering) + 24
    }

    /// Bytes that building the head index takes.
    pub(crate) fn head_memory_bytes(&self) -> u64 {
        let links = 4 * (self.head_degree * 3 + 3);
        self.head_nodes as u64 * (self.layout.vector_bytes() as u64 + links)
    }
}
