//! Byte counts that follow from rows and options: memory while building, files on disk.

use super::error::BuildError;
use super::leaf_links::{self, ROW_BYTES};
use super::options::{BuildOptions, PartitionBy};
use super::pack;
use super::partition_bounds::NEAR;
use super::threads::thread_count;
use crate::format::constants::BLOCK_BYTES;
use crate::format::{FileKind, LayoutOptions, RecordLayout};
use crate::quant::{CodeKind, any_scale_code_bytes, chosen_code_bytes, minds_length};
use crate::types::{Metric, VectorType};

/// At least this many nodes are in a head index, as far as there are rows.
const FEWEST_HEAD_NODES: usize = 16;

/// Near neighbours kept per node for the page order, and for cuts.
pub(crate) const NEAREST: usize = 16;
const _: () = assert!(NEAR <= NEAREST);

/// What cutting the graph of near neighbours takes for each row, beside it and the lists of the graph.
const CUT_BYTES: u64 = 72 * NEAR as u64;

/// Memory that every opened index has for a query's scratch.
const SCRATCH_BYTES: u64 = 4 << 20;

/// Codes are loaded in blocks, each of which has a checksum and a state.
const LOADED_BLOCK_BYTES: u64 = BLOCK_BYTES as u64 + 9;

/// Buffers and stacks of any build.
const BUFFER_BYTES: u64 = 8 << 20;
/// Reckoned for them and for scratch in any case: beside what all rows take, and where memory is
/// limited.
const LEAST_BYTES: u64 = 64 << 20;
const LEAST_LIMITED_BYTES: u64 = 72 << 20;

/// Bytes that a slot takes in an order of pages.
const SLOT_BYTES: f64 = 4.0;
/// So many are reckoned for each row at least.
const LEAST_SLOT_BYTES: u64 = 5;

/// What the slots of an index depend on beside rows and fill.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotNeeds {
    /// Slots that there are in any case.
    pub(crate) least: u64,
    /// Sets of rows that are laid out one by one: threads leave pages of each unfilled.
    pub(crate) groups: u64,
}

/// The shape of an index before it is built.
#[derive(Clone)]
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
    threads: u64,
    /// Whether first edges come from leaves.
    has_leaves: bool,
    least_slots: u64,
}

impl Sizes {
    /// Of a build in memory.
    pub(crate) fn new(
        rows: u64,
        dim: usize,
        ty: VectorType,
        options: &BuildOptions,
    ) -> Result<Self, BuildError> {
        let needs = SlotNeeds { least: 0, groups: options.partitions as u64 };
        Self::with_slots(rows, dim, ty, options, needs)
    }

    /// Of an index whose slots depend on more than rows and fill.
    pub(crate) fn with_slots(
        rows: u64,
        dim: usize,
        ty: VectorType,
        options: &BuildOptions,
        needs: SlotNeeds,
    ) -> Result<Self, BuildError> {
        let threads = thread_count(options.graph.threads) as u64;
        let asked = LayoutOptions {
            fill: options.fill,
            page_bytes: options.page_bytes,
            slots: needs.least,
            ..LayoutOptions::new(dim, ty, options.graph.degree, rows)
        };
        let mut layout = RecordLayout::choose_with(&asked)?;
        let unfilled = pack::unfilled_pages(rows, needs.groups, threads);
        let slots = (filled_pages(rows, &layout) + unfilled) * layout.records_per_page() as u64;
        if !layout.has_slots(slots) {
            layout = RecordLayout::choose_with(&LayoutOptions { slots, ..asked })?;
        }
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
            threads,
            has_leaves: options.metric != Metric::InnerProduct && options.graph.passes > 1,
            least_slots: needs.least,
        };
        sizes.code_bytes = match (options.code_bytes, options.search_memory) {
            (Some(asked), _) => options.codes.longest_within(dim, asked).unwrap_or(asked),
            (None, None) => chosen_code_bytes(options.codes, dim, ty, None),
            (None, Some(limit)) => {
                sizes.check_search_memory(limit, ty, options)?;
                chosen_code_bytes(options.codes, dim, ty, Some(sizes.room_for_code(limit)))
            }
        };
        if options.any_scale && minds_length(options.metric) {
            sizes.code_bytes = sizes.any_scale_code_bytes();
        }
        Ok(sizes)
    }

    /// Refuses a limit that searches could not keep even with the shortest codes.
    fn check_search_memory(
        &self,
        limit: u64,
        ty: VectorType,
        options: &BuildOptions,
    ) -> Result<(), BuildError> {
        let shortest = chosen_code_bytes(options.codes, self.layout.dim(), ty, Some(0));
        let mut least = self.with_code_bytes(shortest);
        if options.any_scale && minds_length(options.metric) {
            least.code_bytes = least.any_scale_code_bytes();
        }
        let needed = least.search_bytes();
        if needed > limit { Err(BuildError::SearchMemory { limit, needed }) } else { Ok(()) }
    }

    /// Bytes of a code where those of the kind asked for would lose rows.
    pub(crate) fn any_scale_code_bytes(&self) -> usize {
        any_scale_code_bytes(self.codes, self.layout.dim(), self.code_bytes)
    }

    /// The same with codes of so many bytes.
    pub(crate) fn with_code_bytes(&self, code_bytes: usize) -> Self {
        Self { code_bytes, ..self.clone() }
    }

    /// Bytes that searches have beside the codes.
    fn beside_codes_bytes(&self) -> u64 {
        let head = self.head_nodes as u64 * (self.head_degree + 2) * 4;
        let codebook = self.layout.dim() as u64 * 1024;
        SCRATCH_BYTES + head + codebook + self.pages() * 4
    }

    fn slots(&self) -> u64 {
        self.pages() * self.layout.records_per_page() as u64
    }

    /// Bytes that a code may have where searches have `limit` bytes of memory.
    fn room_for_code(&self, limit: u64) -> u64 {
        let blocks = limit.saturating_sub(self.beside_codes_bytes()) / LOADED_BLOCK_BYTES;
        blocks * BLOCK_BYTES as u64 / self.slots().max(1)
    }

    /// The least memory that searches need, but for what a page or two more take.
    fn search_bytes(&self) -> u64 {
        let codes = self.slots() * self.code_bytes as u64;
        self.beside_codes_bytes() + codes.div_ceil(BLOCK_BYTES as u64) * LOADED_BLOCK_BYTES
    }

    /// Pages, up to one or two.
    fn pages(&self) -> u64 {
        let least = self.least_slots.div_ceil(self.layout.records_per_page() as u64);
        filled_pages(self.rows, &self.layout).max(least) + 1
    }

    /// Bytes of an order of pages for each row.
    pub(crate) fn slot_bytes(&self) -> u64 {
        let least = self.least_slots as f64 / self.rows.max(1) as f64;
        let slots = self.layout.records_per_page() as f64 / filled(&self.layout);
        ((SLOT_BYTES * slots.max(least)).ceil() as u64).max(LEAST_SLOT_BYTES)
    }

    /// Bytes of scratch of all threads while `rows` rows are linked together.
    fn scratch_bytes(&self, rows: u64) -> u64 {
        let dim = self.layout.dim() as u64;
        if self.has_leaves { leaf_links::scratch_bytes(rows, dim, self.threads) } else { 0 }
    }

    /// Buffers, stacks and scratch while `rows` rows are linked together, where memory is limited.
    pub(crate) fn fixed_bytes(&self, rows: u64) -> u64 {
        (BUFFER_BYTES + self.scratch_bytes(rows)).max(LEAST_LIMITED_BYTES)
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
        // Slots of pages as they are packed, and as they are in order; and both by rows.
        let ordering = vectors + adjacency + nearest + affinity + 2 * self.slot_bytes() + 6;
        let cutting = if self.is_cut { vectors + adjacency + nearest + CUT_BYTES } else { 0 };
        let codes = self.code_bytes as u64;
        let fixed = (BUFFER_BYTES + self.scratch_bytes(self.rows)).max(LEAST_BYTES);
        self.rows * (linking.max(ordering).max(cutting) + codes) + fixed
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
        (vector + links + ROW_BYTES).max(ordering) + 2 * self.slot_bytes() + 14
    }

    /// Bytes that building the head index takes.
    pub(crate) fn head_memory_bytes(&self) -> u64 {
        let links = 4 * (self.head_degree * 3 + 3);
        self.head_nodes as u64 * (self.layout.vector_bytes() as u64 + links)
    }
}

/// Records of a page that a build fills, on average.
fn filled(layout: &RecordLayout) -> f64 {
    (layout.records_per_page() as f64 * layout.fill()).max(1.0)
}

/// Pages that a build fills, up to one.
fn filled_pages(rows: u64, layout: &RecordLayout) -> u64 {
    (rows as f64 / filled(layout)).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::BuildOptions;

    #[test]
    fn a_limit_that_no_search_can_keep_is_refused_with_the_least_that_would_do() {
        let sizes = |options: &BuildOptions| Sizes::new(100_000, 128, VectorType::U8, options);
        for codes in [CodeKind::Product, CodeKind::Rabitq] {
            for any_scale in [false, true] {
                let options = BuildOptions { codes, any_scale, ..BuildOptions::new(Metric::L2) };
                let within = |limit| BuildOptions { search_memory: Some(limit), ..options.clone() };
                let Err(BuildError::SearchMemory { limit: 1024, needed }) = sizes(&within(1024))
                else {
                    panic!("no search has so little");
                };
                let least = sizes(&within(needed)).expect("it would do");
                assert!(least.search_bytes() <= needed, "{codes}, {any_scale}");
                assert!(needed > SCRATCH_BYTES + 100_000 * least.code_bytes as u64);
                assert!(sizes(&within(needed - 1)).is_err(), "{codes}, {any_scale}");
                // Who says how long codes are has made up his mind.
                sizes(&BuildOptions { code_bytes: Some(32), ..within(1024) }).expect("as asked");
            }
        }
    }

    #[test]
    fn edges_can_name_the_slots_of_pages_that_threads_leave_unfilled() {
        let of = |rows: u64, groups: u64| {
            let mut options = BuildOptions::new(Metric::L2);
            options.graph.threads = 16;
            let needs = SlotNeeds { least: 0, groups };
            let sizes = Sizes::with_slots(rows, 128, VectorType::U8, &options, needs);
            sizes.expect("a shape")
        };
        let few = of(1_000_000, 1);
        assert_eq!(few.layout.edge_bytes(), 3);
        // As many rows as full pages hold.
        let per_page = few.layout.records_per_page() as u64;
        let most = few.layout.rows_before(crate::types::PageId(few.layout.max_pages()));
        assert_eq!(of(most, 1).layout.edge_bytes(), 4, "no page is left over");
        let unfilled = pack::unfilled_pages(most, 256, 16) * per_page;
        assert_eq!(of(most - unfilled / 2, 256).layout.edge_bytes(), 4);
        assert_eq!(of(most - 2 * unfilled, 256).layout.edge_bytes(), 3);
    }
}
